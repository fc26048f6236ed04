"""Every activation's name and shape."""

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


def _input(side, rows, config):
    shapes = {f"{side}.embedded": rows, f"{side}.input": rows}
    if config.positions == "sinusoidal":
        shapes[f"{side}.positions"] = rows[1:]
    return shapes


def _sublayers(layer, attentions, rows, config):
    shapes = {}
    for number, (attention, t_k) in enumerate(attentions.items(), start=1):
        shapes |= _prefixed(f"{layer}.{attention}", _attention(rows, t_k, config))
        shapes |= {f"{layer}.residual_{number}": rows} | _prefixed(f"{layer}.norm_{number}", _norm(rows))
    number = len(attentions) + 1
    inner = rows[:2] + (config.d_ff,)
    shapes |= _prefixed(f"{layer}.feed_forward", {"hidden": inner, "active": inner, "out": rows})
    return shapes | {f"{layer}.residual_{number}": rows} | _prefixed(f"{layer}.norm_{number}", _norm(rows))


def _attention(rows, t_k, config):
    batch, t_q, _ = rows
    heads, d_k, d_v = config.n_heads, config.d_k, config.d_v
    return {
        "q": (batch, heads, t_q, d_k), "k": (batch, heads, t_k, d_k), "v": (batch, heads, t_k, d_v),
        "scores": (batch, heads, t_q, t_k), "weights": (batch, heads, t_q, t_k), "mixed": (batch, heads, t_q, d_v),
        "concat": (batch, t_q, heads * d_v), "out": rows,
    }  # fmt: skip


def _norm(rows):
    return {"mean": rows[:2] + (1,), "var": rows[:2] + (1,), "normalised": rows, "out": rows}


def _prefixed(prefix, shapes):
    return {f"{prefix}.{name}": shape for name, shape in shapes.items()}
