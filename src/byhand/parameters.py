"""Every parameter's name and shape, and the check that a dict of arrays has just these."""

import math
from functools import lru_cache
from operator import attrgetter

import numpy as np

from .config import Config

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
ATTENTION = ("w_q", "w_k", "w_v", "w_o")
ATTENTION_BIASES = ("b_q", "b_k", "b_v", "b_o")


def encoder_decoder_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the 2017 encoder-decoder's parameters, in the order of its forward pass."""
    check_config(config)
    return dict(_encoder_decoder_shapes(config))


@lru_cache
def _encoder_decoder_shapes(config):
    _check_2017(config)
    d = config.d_model
    shapes = dict(zip(config.tables, ((config.source_vocab, d), (config.target_vocab, d))))
    shapes |= position_shapes(config, "source_positions", "target_positions")
    for side, attentions in (("encoder", ("self_attention",)), ("decoder", ("self_attention", "cross_attention"))):
        for i in range(config.n_layers):
            layer = f"{side}.{i}"
            for norm, attention in enumerate(attentions, start=1):
                shapes |= _prefixed(f"{layer}.{attention}", attention_shapes(config))
                shapes |= _prefixed(f"{layer}.norm_{norm}", norm_shapes(config))
            shapes |= _prefixed(f"{layer}.feed_forward", feed_forward_shapes(config))
            shapes |= _prefixed(f"{layer}.norm_{len(attentions) + 1}", norm_shapes(config))
    return shapes | output_shapes(config)


def decoder_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the decoder-only stack's parameters, in the order of its forward pass."""
    check_config(config)
    return dict(_decoder_shapes(config))


@lru_cache
def _decoder_shapes(config):
    shapes = {"embedding": (config.target_vocab, config.d_model)} | position_shapes(config, "positions")
    norms = {norm: norm_shapes(config) for norm in config.norm_position.reads}
    rooms = {"attention": attention_shapes(config), "feed_forward": feed_forward_shapes(config)} | norms
    order = [room for room in ("norm_1", "attention", "norm_2", "feed_forward") if room in rooms]
    for i in range(config.n_layers):
        for room in dict.fromkeys([*order, *rooms]):
            shapes |= _prefixed(f"block.{i}.{room}", rooms[room])
    if config.norm_position.last:
        shapes |= _prefixed("norm", norm_shapes(config))
    return shapes | output_shapes(config)


def check_config(config: Config) -> None:
    """Raise ValueError for what is not a Config."""
    if not isinstance(config, Config):
        raise ValueError(f"config was {type(config).__name__}; it must be a byhand.Config")


def _check_2017(config):
    only = {
        "norm": ("post",), "norm_kind": ("layer",), "activation": ("relu",), "positions": ("sinusoidal", "learned", "none"), "n_kv_heads": (config.n_heads,),
    }  # fmt: skip
    for name, allowed in only.items():
        if getattr(config, name) not in allowed:
            raise ValueError(f"config.{name} was {getattr(config, name)!r}; the encoder-decoder of 2017 takes {' or '.join(map(repr, allowed))}")


def position_shapes(config: Config, *names: str) -> dict[str, tuple[int, ...]]:
    """A table of max_length rows for each of these names, where positions are learned."""
    return dict.fromkeys(names, (config.max_length, config.d_model)) if config.positions == "learned" else {}


def attention_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Heads are column blocks of w_q, w_k and w_v; w_o mixes them back to d_model."""
    d, d_k, d_v = config.d_model, config.d_k, config.d_v
    q, k, v = config.n_heads * d_k, config.n_kv_heads * d_k, config.n_kv_heads * d_v
    shapes = {"w_q": (d, q), "b_q": (q,), "w_k": (d, k), "b_k": (k,), "w_v": (d, v), "b_v": (v,), "w_o": (config.n_heads * d_v, d), "b_o": (d,)}
    return _without_biases(shapes, "attention", config)


def norm_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """RMSNorm has no β."""
    names = ("gamma", "beta") if config.norm_kind == "layer" else ("gamma",)
    return {name: (config.d_model,) for name in names}


def feed_forward_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """SwiGLU adds w_3: x w_3 is the gate by which silu(x w_1 + b_1) is multiplied."""
    d, d_ff = config.d_model, config.d_ff
    shapes = {"w_1": (d, d_ff), "b_1": (d_ff,), "w_2": (d_ff, d), "b_2": (d,)}
    if config.gated:
        shapes["w_3"] = (d, d_ff)
    return _without_biases(shapes, "feed_forward", config)


def output_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """With `tied`, output.w is gone and the transposed embedding stands in."""
    shapes = {"output.w": (config.d_model, config.target_vocab), "output.b": (config.target_vocab,)}
    if config.tied:
        del shapes["output.w"]
    return _without_biases(shapes, "output", config)


def _without_biases(shapes, room, config):
    """The shapes, without the biases where this room has none."""
    return {name: shape for name, shape in shapes.items() if len(shape) == 2 or room in config.biases}


def draw(shapes: dict[str, tuple[int, ...]], seed: int, dtype=np.float64) -> dict[str, np.ndarray]:
    """Starting values: matrices Xavier-uniform, embeddings and learned positions N(0, 1/d_model), γ = 1, β and biases 0.

    Source: Glorot and Bengio 2010, equation 16; the embedding's scale as in Vaswani et al. 2017's own code.
    """
    rng = np.random.default_rng(seed)

    def start(name, shape):
        if name.endswith(("embedding", "positions")):
            return rng.normal(0.0, shape[1] ** -0.5, shape)
        if len(shape) == 2:
            bound = math.sqrt(6 / sum(shape))
            return rng.uniform(-bound, bound, shape)
        return np.ones(shape) if name.endswith("gamma") else np.zeros(shape)

    return {name: start(name, shape).astype(dtype) for name, shape in shapes.items()}


def check_params(params: dict[str, np.ndarray], shapes: dict[str, tuple[int, ...]], half: bool = False, finite: bool = True) -> None:
    """Raise ValueError for the first unknown, missing, misshapen or non-finite parameter, by name; and for what check_floats refuses

    half=True lets in half precision and mixtures, as PyTorch's floor does; finite=False does not look at the numbers.
    """
    if not isinstance(params, dict):
        raise ValueError(f"params was {type(params).__name__}; it must be a dict of arrays")
    if not finite and _one_kind(params) and shapes_of(params) == shapes:
        return
    for name in params:
        if name not in shapes:
            raise ValueError(f"parameter {name!r} is unknown; this model has {_some(shapes)}")
    for name, shape in shapes.items():
        if name not in params:
            raise ValueError(f"parameter {name!r} is missing; it must have shape {shape}")
        value = params[name]
        if not isinstance(value, np.ndarray):
            raise ValueError(f"parameter {name!r} was {type(value).__name__}; it must be a NumPy array")
        if value.shape != shape:
            raise ValueError(f"parameter {name!r} had shape {value.shape}; it must be {shape}")
        if value.dtype.kind != "f":
            raise ValueError(f"parameter {name!r} had dtype {value.dtype}; it must be a floating-point array")
        # A sum of squares is quick; it can overflow, so only the slow look decides.
        if finite and not math.isfinite(np.vdot(value, value)) and not np.isfinite(value).all():
            raise ValueError(f"parameter {name!r} holds a value that is not finite; every entry must be a finite number")
    if not half:
        check_floats(params, "parameter {!r}")


def shapes_of(arrays: dict[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    """Each array's shape under its name."""
    return dict(zip(arrays, map(attrgetter("shape"), arrays.values())))


def check_floats(arrays: dict[str, np.ndarray], called: str = "{}", like: tuple[str, np.dtype] | None = None) -> tuple[str, np.dtype] | None:
    """Raise ValueError for the first that is not a NumPy array of float32 or float64, or is of another dtype than the first of all.

    Half precision would have sums overflow at 65504 and Adam's ε round to 0; two precisions in one sum are most often a slip. called: how a
    message names one of them, as "the gradient of {!r}". like: what a call for other arrays of the same operation returned.
    """
    if (kind := _one_kind(arrays)) and (like is None or kind == like[1]):
        return like or (called.format(next(iter(arrays))), kind)
    for name, value in arrays.items():
        if not isinstance(value, np.ndarray):
            raise ValueError(f"{called.format(name)} was {type(value).__name__}; it must be a NumPy array")
        if value.dtype not in FLOATS:
            raise ValueError(f"{called.format(name)} had dtype {value.dtype}; it must be float32 or float64")
        like = like or (called.format(name), value.dtype)
        if value.dtype != like[1]:
            raise ValueError(f"{called.format(name)} had dtype {value.dtype} and {like[0]} {like[1]}; all arrays of one call must share one")
    return like


def _one_kind(arrays):
    """The dtype, if all are NumPy arrays of one that is allowed: the usual case, seen quickly."""
    if set(map(type, arrays.values())) != {np.ndarray}:
        return None
    kinds = set(map(attrgetter("dtype"), arrays.values()))
    return next((dtype for dtype in FLOATS if kinds == {dtype}), None)


def _prefixed(prefix, shapes):
    return {f"{prefix}.{name}": shape for name, shape in shapes.items()}


def _some(names, most=4):
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
