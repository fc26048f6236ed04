"""Every activation's name and shape, and which array each norm takes."""

from typing import NamedTuple

from byhand.config import Config


def activation_shapes(config: Config, batch: int, t_source: int, t_target: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the encoder-decoder's activations, in the order of its forward pass."""
    source, target = (batch, t_source, config.d_model), (batch, t_target, config.d_model)
    shapes = _input("encoder", source, config)
    for i in range(config.n_layers):
        shapes |= _sublayers(f"encoder.{i}", {"self_attention": t_source}, source, config)
    shapes |= {"encoder.memory": source} | _input("decoder", target, config)
    for i in range(config.n_layers):
        shapes |= _sublayers(f"decoder.{i}", {"self_attention": t_target, "cross_attention": t_source}, target, config)
    return shapes | {"decoder.out": target, "logits": (batch, t_target, config.target_vocab)}


def decoder_activation_shapes(config: Config, batch: int, time: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the decoder stack's activations."""
    rows, inner = (batch, time, config.d_model), (batch, time, config.d_ff)
    gate = {"gate": inner} if config.gated else {}
    shapes = _input("", rows, config)
    for i in range(config.n_layers):
        block = f"block.{i}"
        shapes |= _prefixed(f"{block}.attention", _attention(rows, time, config)) | {f"{block}.residual_1": rows, f"{block}.residual_2": rows}
        for norm in config.norm_position.reads:
            shapes |= _prefixed(f"{block}.{norm}", _norm(rows, config))
        shapes |= _prefixed(f"{block}.feed_forward", {"hidden": inner, **gate, "active": inner, "out": rows})
    if config.norm_position.last:
        shapes |= _prefixed("norm", _norm(rows, config))
    return shapes | {"out": rows, "logits": (batch, time, config.target_vocab)}


class NormPlace(NamedTuple):
    """A norm's name, the activation that it takes, and the gradient that it sends there."""

    name: str
    x: str
    dx: str


def norm_places(config: Config, is_decoder: bool) -> list[NormPlace]:
    """For each norm what it reads; a block's input is what the one before it left."""
    if not is_decoder:
        sides = [(f"{side}.{i}", count) for side, count in (("encoder", 2), ("decoder", 3)) for i in range(config.n_layers)]
        return [NormPlace(f"{layer}.norm_{k}", *[f"{layer}.residual_{k}"] * 2) for layer, count in sides for k in range(1, count + 1)]
    where, places, x = config.norm_position, [], "input"
    for block in (f"block.{i}" for i in range(config.n_layers)):
        for norm, way in where.reads.items():
            stage = way.partition(".via_")[0]
            places.append(NormPlace(f"{block}.{norm}", x if stage == "input" else f"{block}.{stage}", f"{block}.{way}"))
        x = f"{block}.residual_2"
    return [*places, NormPlace("norm", x, x)] if where.last else places


def _input(side, rows, config):
    names = ["embedded", "input"] + ["positions"] * (config.positions in ("sinusoidal", "learned"))
    shapes = {name: rows[1:] if name == "positions" else rows for name in names}
    return _prefixed(side, shapes) if side else shapes


def _sublayers(layer, attentions, rows, config):
    shapes = {}
    for number, (attention, t_k) in enumerate(attentions.items(), start=1):
        shapes |= _prefixed(f"{layer}.{attention}", _attention(rows, t_k, config))
        shapes |= {f"{layer}.residual_{number}": rows} | _prefixed(f"{layer}.norm_{number}", _norm(rows, config))
    number = len(attentions) + 1
    inner = rows[:2] + (config.d_ff,)
    shapes |= _prefixed(f"{layer}.feed_forward", {"hidden": inner, "active": inner, "out": rows})
    return shapes | {f"{layer}.residual_{number}": rows} | _prefixed(f"{layer}.norm_{number}", _norm(rows, config))


def _attention(rows, t_k, config):
    batch, t_q, _ = rows
    heads, kv_heads, d_k, d_v = config.n_heads, config.n_kv_heads, config.d_k, config.d_v
    unrotated = {"q_unrotated": (batch, heads, t_q, d_k), "k_unrotated": (batch, kv_heads, t_k, d_k)} if config.positions == "rope" else {}
    return unrotated | {
        "q": (batch, heads, t_q, d_k), "k": (batch, kv_heads, t_k, d_k), "v": (batch, kv_heads, t_k, d_v),
        "scores": (batch, heads, t_q, t_k), "weights": (batch, heads, t_q, t_k), "mixed": (batch, heads, t_q, d_v),
        "concat": (batch, t_q, heads * d_v), "out": rows,
    }  # fmt: skip


def _norm(rows, config):
    moments = ("mean_square",) if config.norm_kind == "rms" else ("mean", "var")
    return {name: rows[:2] + (1,) for name in moments} | {"normalised": rows, "out": rows}


def _prefixed(prefix, shapes):
    return {f"{prefix}.{name}": shape for name, shape in shapes.items()}
