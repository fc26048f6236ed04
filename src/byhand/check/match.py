"""Which of a stranger's parameters is which of ours: by their names, their order and their shapes; turned or packed ones are cut and turned back."""

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .reader import Unreadable

Array = np.ndarray
Arrays = dict[str, Array]


class Place(NamedTuple):
    """Where one of our parameters stands among theirs: block `block` of `blocks` along the axis of outputs, transposed where they keep (out, in)."""

    theirs: str
    turned: bool = False
    block: int = 0
    blocks: int = 1

    def take(self, arrays: Mapping[str, Array]) -> Array:
        array = arrays[self.theirs].T if self.turned else arrays[self.theirs]
        return np.split(array, self.blocks, axis=-1)[self.block] if self.blocks > 1 else array


class Match(NamedTuple):
    """places: ours to theirs. unknown: theirs that found no place. words: what was worked out."""

    places: dict[str, Place]
    unknown: tuple[str, ...]
    words: tuple[str, ...]

    def take(self, arrays: Mapping[str, Array]) -> Arrays:
        """Ours from theirs, for those that they have."""
        return {ours: place.take(arrays) for ours, place in self.places.items() if place.theirs in arrays}

    def give(self, ours: Arrays) -> Arrays:
        """Theirs from ours, for a step that takes parameters."""
        found: dict[str, dict[int, Array]] = {}
        for name, place in self.places.items():
            found.setdefault(place.theirs, {})[place.block] = ours[name]
        turned = {place.theirs: place.turned for place in self.places.values()}
        whole = {name: np.concatenate([blocks[i] for i in sorted(blocks)], axis=-1) for name, blocks in found.items()}
        return {name: array.T if turned[name] else array for name, array in whole.items()}


# A role, and what its names look like once the layer's number is gone; the first that fits counts.
_ATTENTION = r"(att|attn|mha|self|cross|qkv)"
ROLES = {
    "positions": r"((source|target|src|tgt|emb|embed)_)?(wpe|pos(ition)?s?(al)?(_?(emb\w*|enc\w*|table))?|p)(_(w|weight|table))?",
    "norm": r"(.*_)?(ln|norm|layernorm|rms|rmsnorm|layer_norm|n(?=_?\d))(_?[f\d])?(_\w*)?",
    "qkv": r"(.*_)?([wb]?_?qkv|c_attn|in_proj|qkv_proj)(_\w*)?",
    "w_q": rf"(.*_)?([wb]?_?q|q_?proj|q_?lin|(w_)?query)(_(w|weight|b|bias|kernel))?|{_ATTENTION}_?linears_0.*",
    "w_k": rf"(.*_)?([wb]?_?k|k_?proj|k_?lin|(w_)?key)(_(w|weight|b|bias|kernel))?|{_ATTENTION}_?linears_1.*",
    "w_v": rf"(.*_)?([wb]?_?v|v_?proj|v_?lin|(w_)?value)(_(w|weight|b|bias|kernel))?|{_ATTENTION}_?linears_2.*",
    "w_o": rf"(.*_)?([wb]?_?o|o_?proj|out_?proj|o_?lin)(_(w|weight|b|bias|kernel))?"
    rf"|.*{_ATTENTION}.*_(c_proj|proj|out|output|dense).*|{_ATTENTION}_?linears_3.*",
    "gate": r"(.*_)?(gate\w*)",
    "up": r"(.*_)?(up|up_proj|w_?3)(_\w*)?",
    "w_1": r"(.*_)?(fc|fc_?1|w_?1|c_fc|linear_?1|lin_?1|fc_in|[wb]_in|[wb]_up|inner|b_?1|hidden|dense_1|ffn_1|ff_1|0)(_(w|weight|b|bias|kernel))?",
    "w_2": r"(.*_)?(fc_?2|w_?2|c_proj|proj|down|down_proj|linear_?2|lin_?2|fc_out|[wb]_out|[wb]_down|b_?2|dense_2|ffn_2|ff_2|2)(_(w|weight|b|bias|kernel))?",
    "embedding": r"(.*_)?(wte|tok\w*|emb\w*|embed\w*|e|lut|shared|source|target|src|tgt)(_\w*)?",
    "output": r"(.*_)?(head|lm_head|unembed\w*|out|output|logits?|vocab|generator|w_?out|b_?out|u|final|classifier|proj)(_\w*)?",
}  # fmt: skip
_BIAS = re.compile(r"(^|_)(b|bias|beta|shift|offset)(_?\d)?$|^b_")


class _Named(NamedTuple):
    """One of their parameters: side ("encoder", "decoder" or ""), layer (None outside), role, whether it is a bias, whether of cross-attention."""

    name: str
    side: str
    layer: int | None
    role: str
    bias: bool
    cross: bool
    rest: str


def match(params: Arrays, has_source: bool, names: Mapping[str, str] | None = None) -> Match:
    """Ours from theirs. names: {theirs: ours}, for what the rules below do not know; a * in both stands for the layer's number.

    Raises Unreadable where there is no embedding, or a place is claimed twice.
    """
    places: dict[str, Place] = {}
    words, unknown = [], []
    explicit = _in_each_layer(names or {}, params)
    named = [_named(name, params[name]) for name in params if name not in explicit]
    for theirs in explicit:
        if theirs not in params:
            raise Unreadable(f"names held {theirs!r}, which is none of its parameters: {', '.join(list(params)[:6])}, …")
        if params[theirs].ndim > 2:
            raise Unreadable(f"parameter {theirs} had shape {params[theirs].shape}; a matrix or a vector is needed")
    layers = _layers(named, has_source)
    norms: dict[tuple, list[str]] = {}
    for one in named:
        found = _ours(one, params, layers, has_source, norms, named)
        if not found:
            unknown.append(one.name)
        for i, ours in enumerate(found):
            if ours in places:
                raise Unreadable(f"{one.name} and {places[ours].theirs} both look like {ours}; say which is which, as names={{{one.name!r}: …}}")
            places[ours] = Place(one.name, False, i, len(found))
    places |= {ours: Place(theirs) for theirs, ours in explicit.items()}
    tables = [ours for ours in places if ours.endswith("embedding")]
    if len(tables) == 1:  # of both sides, where there are two
        places["embedding"] = places.pop(tables[0])
    places, turned = _turned(places, params)
    if turned:
        words.append("matrices are kept as (out, in) and were turned")
    packed = sorted({place.theirs for place in places.values() if place.blocks > 1})
    if packed:
        words.append(f"{packed[0]} holds queries, keys and values side by side, in this order")
    return Match(places, tuple(unknown), tuple(words))


def _in_each_layer(names, params):
    """The names, with one for each layer where a * stands for its number."""
    found = {}
    for theirs, ours in names.items():
        pattern = re.escape(theirs).replace(r"\*", r"(\d+)", 1)
        numbers = sorted(int(same[1]) for same in (re.fullmatch(pattern, name) for name in params) if same) if "*" in theirs else []
        found |= {theirs.replace("*", str(number)): ours.replace("*", str(i)) for i, number in enumerate(numbers)} or {theirs: ours}
    return found


def _named(name, array):
    parts = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower().replace("/", ".").replace("-", "_").split(".")
    side = next((side for part in parts for side, short in (("encoder", "enc"), ("decoder", "dec")) if part.startswith(short)), "")
    layer, rest = None, []
    for part in parts:
        number = re.fullmatch(r"(?:layers?|blocks?|h|l|b|enc(?:oder)?|dec(?:oder)?)?_?(\d+)", part)
        joined = re.fullmatch(r"(?:layers?|blocks?|h|l|b|enc(?:oder)?|dec(?:oder)?)_?(\d+)_(.+)", part)
        if layer is None and joined:
            layer, part = int(joined[1]), joined[2]
        elif layer is None and number:
            layer = int(number[1])
            continue
        rest.append(part)
    rest = [part for part in rest if part not in ("model", "transformer", "layers", "layer", "blocks", "block", "h", "encoder", "decoder", "module", "params")]
    rest = [re.sub(r"^(enc|dec|encoder|decoder)_", "", part) for part in rest]
    text = "_".join(rest)
    cross = bool(re.search(r"cross|multihead_attn|encoder_attn|src_attn|xattn", ".".join(parts)))
    bias = array.ndim == 1 and bool(_BIAS.search(text))
    return _Named(name, side, layer, _role(text, layer, array), bias, cross, text)


def _role(text, layer, array):
    for role, pattern in ROLES.items():
        if role in ("embedding", "output", "positions") and layer is not None or role not in ("embedding", "output", "positions", "norm") and layer is None:
            continue
        if re.fullmatch(pattern, text):
            return role
    if array.ndim == 1 and re.fullmatch(r"(gamma|beta|g|gain|scale|shift)_?[f\d]?", text):
        return "norm"
    return ""


def _layers(named, has_source):
    """Their numbers of the layers, in order, for each of our sides."""
    sides = ("encoder", "decoder") if has_source else ("",)
    return {side: sorted({one.layer for one in named if one.layer is not None and (not has_source or one.side == side)}) for side in sides}


def _ours(one, params, layers, has_source, norms, named):
    """Our names for one of theirs: three where it is packed, none where it is not known."""
    if one.layer is None:
        return _outside(one, has_source)
    side = one.side if has_source else ""
    if one.layer not in layers.get(side, ()):
        return []
    block = f"{side}.{layers[side].index(one.layer)}" if has_source else f"block.{layers[side].index(one.layer)}"
    attention = "attention" if not has_source else "cross_attention" if one.cross else "self_attention"
    if one.role == "norm":
        return [f"{block}.norm_{_number(one, block, norms, named)}.{'beta' if one.bias else 'gamma'}"]
    if one.role == "qkv":
        return [f"{block}.{attention}.{'b' if params[one.name].ndim == 1 else 'w'}_{x}" for x in "qkv"]
    if one.role in ("w_q", "w_k", "w_v", "w_o"):
        return [f"{block}.{attention}.{'b' if params[one.name].ndim == 1 else 'w'}{one.role[1:]}"]
    has_gate = any(other.role == "gate" and other.layer == one.layer for other in named)
    # Llama bends what it calls the gate: silu(gate) ⊙ up; here silu(x w_1) ⊙ x w_3
    kind = {"gate": "1", "up": "3" if has_gate or re.search(r"w_?3", one.rest) else "1", "w_1": "1", "w_2": "2"}.get(one.role)
    return [f"{block}.feed_forward.{'b' if params[one.name].ndim == 1 else 'w'}_{kind}"] if kind else []


def _outside(one, has_source):
    side = ""
    if has_source:
        side = "target_" if one.side == "decoder" or re.search(r"tgt|target|dec|trg", one.name.lower()) else "source_"
    if one.role == "positions":
        return [f"{side}positions"]
    if one.role == "norm" and not has_source:
        return [f"norm.{'beta' if one.bias else 'gamma'}"]
    if one.role == "output":
        return ["output.b" if one.bias else "output.w"]
    if one.role == "embedding":
        return [f"{side}embedding"]
    return []


def _number(one, block, norms, named):
    """Which of the layer's norms: by the sublayer in its name, or by the order in which they come."""
    stem = re.sub(r"_?(w|weight|gamma|g|gain|scale|b|bias|beta|shift)$", "", one.rest)
    if re.search(r"post_attention|ffn_norm|mlp_norm|ff_norm|ffn_ln", stem):
        return 2
    if re.search(r"input|attention_norm|attn_norm|attn_ln", stem):
        return 1
    digits = re.sub(r"^(gamma|beta|g|b)_?(?=\d)", "", one.rest)
    seen = norms.setdefault((block,), [])
    stem = stem if stem else digits
    if stem not in seen:
        seen.append(stem)
    numbers = [int(n) for n in re.findall(r"\d+", stem)]
    if numbers:
        lowest = min(int(n) for other in named if other.role == "norm" and other.layer == one.layer for n in re.findall(r"\d+", other.rest)[:1])
        return numbers[0] - lowest + 1
    return seen.index(stem) + 1


def _turned(places, params):
    """The places, with `turned` where matrices are kept as (out, in): for all of them or for none, as the ones that are not square say."""
    tables = [params[place.theirs] for ours, place in places.items() if ours.endswith("embedding")]
    if not tables:
        raise Unreadable(f"no embedding was found among its parameters ({', '.join(list(params)[:6])}); say which it is, as names={{…: 'embedding'}}")
    gains = {len(params[place.theirs]) for ours, place in places.items() if ours.endswith("gamma")}
    d = gains.pop() if len(gains) == 1 else tables[0].shape[-1]
    votes = []
    for ours, place in places.items():
        array = params[place.theirs]
        reads_d = ours.endswith((".w_q", ".w_k", ".w_v", ".w_1", ".w_3", "output.w"))
        if array.ndim == 2 and array.shape[0] != array.shape[1] and (reads_d or ours.endswith((".w_2", ".w_o"))):
            votes.append((array.shape[1] if reads_d else array.shape[0]) == d)
    turned = sum(votes) * 2 > len(votes)

    def of(ours, place):
        array = params[place.theirs]
        if array.ndim != 2:
            return place
        if ours.endswith(("embedding", "positions")):
            return place._replace(turned=array.shape[-1] != d and array.shape[0] == d)
        if array.shape[0] != array.shape[1]:
            reads_d = not ours.endswith((".w_2", ".w_o"))
            return place._replace(turned=(array.shape[1] if reads_d else array.shape[0]) == d)
        return place._replace(turned=turned)

    return {ours: of(ours, place) for ours, place in places.items()}, turned
