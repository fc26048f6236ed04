"""What readers call the stages, and where each stands on the live page."""

from .step import NORMS

ORDINALS = ("first", "second", "third")
LEAVES = {"encoder": ("ENC₁", "ENC"), "decoder": ("DEC₁", "DEC₂", "h")}  # what leaves each norm, as on the pages


def labels() -> dict[str, tuple[str, str]]:
    """For every stage of the forward pass and every leaf: its symbol, and what one number of it is; {t} stands for the word at t."""
    words = {
        "source": ("source word", "the number of the source word at {s}"),
        "decoder_input": ("word written", "the number of the word written at {t}"),
        "targets": ("wanted word", "the number of the word wanted after {t}"),
        "scored": ("weight", "what the loss after {t} is multiplied by: 0 where it is not scored"),
        "source_mask": ("mask", "1 where the source word {r} may be seen"),
        "causal_mask": ("mask", "1 where {t} may see {p}"),
        "root_d_model": ("√d", "the root of the rows' width"),
        "root_d_k": ("√dₖ", "the root of a head's width, the scale of the scores"),
        "eps": ("ε", "the small number inside a norm's root"),
        "smoothing": ("ε_ls", "the share of label smoothing"),
        "lr": ("lr", "the learning rate"),
        "decoder.out": ("h", "the decoder's last row for {t}, column {c}"),
        "output.w": ("W_out", "weight of the output layer from column {c} to {v}"),
        "output.b": ("b", "bias of the output layer for {v}"),
        "logits": ("z", "the logit of {v} after {t}"),
        "probabilities": ("p", "the probability of {v} after {t}"),
        "q": ("q", "the share of {v} in what is wanted after {t}"),
        "loss": ("L", "the loss"),
        "encoder.memory": ("ENC", "the memory's row for {s}, column {c}"),
    }
    for side, name, letter, t, r, word in (("encoder", "source", "X", "s", "r", "u"), ("decoder", "target", "Y", "t", "p", "v")):
        words |= {
            f"{name}_embedding": ("E", f"the {name} table's row for {{{word}}}, column {{c}}"),
            f"{side}.embedded": ("√d·E", f"the row picked for {{{t}}}, column {{c}}"),
            f"{side}.positions": ("PE", f"the position added to {{{t}}}, column {{c}}"),
            f"{side}.input": (letter, f"the {side}'s input row for {{{t}}}, column {{c}}"),
        }
        words |= _attention(f"{side}.0.self_attention", t, r, f"{side}'s self-attention")
        for i in range(1, NORMS[side] + 1):
            words |= _norm(f"{side}.0", i, t, side)
        words |= _feed_forward(f"{side}.0.feed_forward", t, side)
    return words | _attention("decoder.0.cross_attention", "t", "r", "cross-attention")


def _attention(n, t, r, where):
    t, r = f"{{{t}}}", f"{{{r}}}"
    words = {
        f"{n}.q": ("Q", f"the query of {t}, head {{h}}, column {{k}}, in the {where}"),
        f"{n}.scores": ("S", f"how well the query of {t} fits the key of {r}, head {{h}}, in the {where}"),
        f"{n}.weights": ("A", f"how much {t} takes from {r}, head {{h}}, in the {where}"),
        f"{n}.mixed": ("O", f"the values mixed for {t}, head {{h}}, column {{k}}, in the {where}"),
        f"{n}.concat": ("[O O]", f"the heads of {t} side by side, column {{hk}}, in the {where}"),
        f"{n}.out": ("out", f"what {t} gets from the {where}, column {{c}}"),
        f"{n}.w_o": ("W_O", f"weight from the heads' column {{e}} to column {{c}}, {where}"),
    }
    for w, name in (("k", "key"), ("v", "value")):
        words[f"{n}.{w}"] = (w.upper(), f"the {name} of {r}, head {{h}}, column {{k}}, in the {where}")
    for w, name in (("q", "queries"), ("k", "keys"), ("v", "values")):
        words[f"{n}.w_{w}"] = (f"W_{w.upper()}", f"weight from column {{c}} to the {name}' column {{hk}}, {where}")
    return words


def _norm(layer, i, t, side):
    n, t, where = f"{layer}.norm_{i}", f"{{{t}}}", f"{side}'s {ORDINALS[i - 1]} norm"
    return {
        f"{layer}.residual_{i}": ("R", f"the sum that enters the {where}, {t}, column {{c}}"),
        f"{n}.mean": ("μ", f"the mean of the row of {t} in the {where}"),
        f"{n}.var": ("σ²", f"the variance of the row of {t} in the {where}"),
        f"{n}.normalised": ("x̂", f"normalised, before γ and β: {t}, column {{c}}, {where}"),
        f"{n}.out": (LEAVES[side][i - 1], f"what leaves the {where}, {t}, column {{c}}"),
        f"{n}.gamma": ("γ", f"the gain of column {{c}} in the {where}"),
        f"{n}.beta": ("β", f"the shift of column {{c}} in the {where}"),
    }


def _feed_forward(n, t, side):
    t, where = f"{{{t}}}", f"{side}'s feed-forward"
    return {
        f"{n}.hidden": ("U", f"hidden unit {{f}} of {t} before the ReLU, {where}"),
        f"{n}.active": ("U⁺", f"hidden unit {{f}} of {t} after the ReLU, {where}"),
        f"{n}.out": ("F", f"what {t} gets from the {where}, column {{c}}"),
        f"{n}.w_1": ("W₁", f"weight from column {{c}} to hidden unit {{f}}, {where}"),
        f"{n}.b_1": ("b₁", f"bias of hidden unit {{f}}, {where}"),
        f"{n}.w_2": ("W₂", f"weight from hidden unit {{f}} to column {{c}}, {where}"),
        f"{n}.b_2": ("b₂", f"bias of column {{c}}, {where}"),
    }


ATTENTION = ["q", "k", "v", "scores", "weights", "mixed", "concat", "out"]


def rooms() -> list[dict]:
    """The rooms of both columns, from the top down: title, stages, weights, what else is given, and the stop on the book's map.

    A stage and a weight stand in one room each; what is given may be read in several.
    """

    def room(line, title, stop, stages, weights=(), given=()):
        return dict(line=line, title=title, stop=stop, stages=stages, weights=list(weights), given=list(given))

    def attention(line, name, title, stop):
        weights = [f"{name}.w_{w}" for w in "qkvo"]
        mask = "causal_mask" if "masked" in title else "source_mask"
        return room(line, title, stop, [f"{name}.{part}" for part in ATTENTION], weights, [mask, "root_d_k"])

    def norm(line, i, *last):
        n = f"{line}.0.norm_{i}"
        parts = [f"{line}.0.residual_{i}", *(f"{n}.{part}" for part in ("mean", "var", "normalised", "out")), *last]
        return room(line, f"{ORDINALS[i - 1]} add and norm", _stop(line, f"norm_{i}"), parts, [f"{n}.gamma", f"{n}.beta"], ["eps"])

    def feed_forward(line):
        n = f"{line}.0.feed_forward"
        stages, weights = ([f"{n}.{part}" for part in parts] for parts in (("hidden", "active", "out"), ("w_1", "b_1", "w_2", "b_2")))
        return room(line, "feed-forward", _stop(line, "feed_forward"), stages, weights)

    def words(line, name, tokens):
        given = [f"{line}.positions", tokens, "root_d_model"]
        return room(line, "words and positions", f"{name}_embedding", [f"{line}.embedded", f"{line}.input"], [f"{name}_embedding"], given)

    return [
        room("decoder", "loss", "loss", ["loss", "q"], given=["targets", "scored", "smoothing", "lr"]),
        room("decoder", "vocabulary", "vocabulary", ["probabilities", "logits"], ["output.w", "output.b"]),
        norm("decoder", 3, "decoder.out"),
        feed_forward("decoder"),
        norm("decoder", 2),
        attention("decoder", "decoder.0.cross_attention", "cross-attention", "cross_attention"),
        norm("decoder", 1),
        attention("decoder", "decoder.0.self_attention", "masked self-attention", "masked_attention"),
        words("decoder", "target", "decoder_input"),
        norm("encoder", 2, "encoder.memory"),
        feed_forward("encoder"),
        norm("encoder", 1),
        attention("encoder", "encoder.0.self_attention", "self-attention", "self_attention"),
        words("encoder", "source", "source"),
    ]


def _stop(line, name):
    return name if line == "encoder" else f"decoder_{name}"


def home(name: str) -> str:
    """The stage or leaf under which a stage is shown: a gradient and an updated weight with their own, a way back with what it adds up to."""
    name = name.removeprefix("d:").removeprefix("new:").split(".via_")[0]
    return {"encoder.0.input": "encoder.input", "decoder.0.input": "decoder.input", "decoder.0.memory": "encoder.memory"}.get(name, name)
