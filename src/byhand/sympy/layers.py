"""The layers that both models are made of, for one sequence and any way of carrying a value (see carry)."""

from ..config import Config
from ..record import Record
from . import attention, embedding, feed_forward, linear, norm, position, softmax
from .exact import setting


class Wiring:
    """Puts carried rows through a room under its parameters' names, and records every stage under its dotted name."""

    def __init__(self, carry, params: dict, config: Config):
        self.carry, self.params, self.config, self.record = carry, params, config, Record()

    def __call__(self, name: str, stage, *inputs, **settings):
        """stage(*inputs, **settings), recorded as `name`."""
        return self.record(name, self.carry.apply(stage, *inputs, **settings))

    def linear(self, x, prefix: str, w: str, b: str):
        """x w + b, or x w in a model that has no such bias."""
        names = (name for name in (f"{prefix}.{w}", f"{prefix}.{b}") if name in self.params)
        return self.carry.apply(linear.linear, x, *(self.params[name] for name in names))

    def embed(self, prefix: str, table: str, tokens: tuple[int, ...], learned: str):
        """√d E[tokens], and the sinusoids, or the rows of the table of positions, added where the model has them."""
        config, time = self.config, len(tokens)
        x = self(f"{prefix}embedded", embedding.embedding, self.params[table], tokens=tokens, scaled=config.scaled)
        if config.positions == "sinusoidal":
            rows = self(f"{prefix}positions", position.sinusoidal, length=time, d_model=config.d_model, pairing=config.pairing)
            x = self.carry.apply(linear.add, x, rows)
        if config.positions == "learned":
            rows = self(f"{prefix}positions", embedding.embedding, self.params[learned], tokens=tuple(range(time)), scaled=False)
            x = self.carry.apply(linear.add, x, rows)
        return self.record(f"{prefix}input", x)

    def attend(self, name: str, x, memory, mask, positions: tuple[int, ...] | None = None):
        """Multi-head attention of x to memory; with positions, queries and keys are rotated by them first."""
        config, carry = self.config, self.carry
        q, k, v = (self.linear(rows, name, f"w_{c}", f"b_{c}") for c, rows in (("q", x), ("k", memory), ("v", memory)))
        shared = config.n_heads // config.n_kv_heads
        steps = {}
        for head in range(config.n_heads):
            kv = head // shared
            one = {"q": self._block(q, head, config.d_k), "k": self._block(k, kv, config.d_k), "v": self._block(v, kv, config.d_v)}
            if positions is not None:
                one = {"q_unrotated": one["q"], "k_unrotated": one["k"], **one}
                one |= {c: carry.apply(position.rope, one[c], positions=positions, pairing=config.pairing) for c in "qk"}
            one["scores"] = carry.apply(attention.scores, one["q"], one["k"])
            one["weights"] = carry.apply(softmax.softmax, one["scores"], mask=mask)
            one["mixed"] = carry.apply(linear.linear, one["weights"], one["v"])
            for step, value in one.items():
                if step not in ("k", "v", "k_unrotated") or head % shared == 0:
                    steps.setdefault(step, []).append(value)
        for step, values in steps.items():
            self.record(f"{name}.{step}", tuple(values))
        concat = self(f"{name}.concat", attention.side_by_side, *steps["mixed"])
        return self.record(f"{name}.out", self.linear(concat, name, "w_o", "b_o"))

    def feed(self, name: str, x):
        """The position-wise network with the model's own activation."""
        hidden = self.record(f"{name}.hidden", self.linear(x, name, "w_1", "b_1"))
        if self.config.activation == "swiglu":
            gate = self(f"{name}.gate", linear.linear, x, self.params[f"{name}.w_3"])
            active = self(f"{name}.active", feed_forward.swiglu, hidden, gate)
        else:
            active = self(f"{name}.active", getattr(feed_forward, self.config.activation), hidden)
        return self.record(f"{name}.out", self.linear(active, name, "w_2", "b_2"))

    def norm(self, name: str, x):
        """Layer norm or RMS norm, stage by stage."""
        eps, gamma = setting(self.config.eps), self.params[f"{name}.gamma"]
        if self.config.norm_kind == "rms":
            square = self(f"{name}.mean_square", norm.mean_square, x)
            hat = self(f"{name}.normalised", norm.rescale, x, square, eps=eps)
            return self(f"{name}.out", norm.gain, hat, gamma)
        mu = self(f"{name}.mean", norm.mean, x)
        var = self(f"{name}.var", norm.variance, x, mu)
        hat = self(f"{name}.normalised", norm.normalise, x, mu, var, eps=eps)
        return self(f"{name}.out", norm.gain_and_shift, hat, gamma, self.params[f"{name}.beta"])

    def add(self, name: str, x, change):
        """The residual path and what the branch changes, recorded as `name`."""
        return self(name, linear.add, x, change)

    def logits(self, x, table: str):
        """x W + b; with tied weights W is the table, transposed."""
        w = self.carry.apply(linear.transpose, self.params[table]) if self.config.tied else self.params["output.w"]
        bias = (self.params[name] for name in ("output.b",) if name in self.params)
        return self("logits", linear.linear, x, w, *bias)

    def _block(self, x, number, width):
        return self.carry.apply(attention.columns, x, start=number * width, stop=(number + 1) * width)


def post_norm_block(wired: Wiring, block: str, x, mask, positions=None, room: str = "attention"):
    """u = norm₁(x + attention(x)),  y = norm₂(u + FFN(u));  room is the attention's name"""
    u = wired.norm(f"{block}.norm_1", wired.add(f"{block}.residual_1", x, wired.attend(f"{block}.{room}", x, x, mask, positions)))
    return wired.norm(f"{block}.norm_2", wired.add(f"{block}.residual_2", u, wired.feed(f"{block}.feed_forward", u)))


def pre_norm_block(wired: Wiring, block: str, x, mask, positions=None):
    """u = x + attention(norm₁(x)),  y = u + FFN(norm₂(u))"""
    normed = wired.norm(f"{block}.norm_1", x)
    u = wired.add(f"{block}.residual_1", x, wired.attend(f"{block}.attention", normed, normed, mask, positions))
    return wired.add(f"{block}.residual_2", u, wired.feed(f"{block}.feed_forward", wired.norm(f"{block}.norm_2", u)))


BLOCKS = {"post": post_norm_block, "pre": pre_norm_block}


def decoder_layer(wired: Wiring, layer: str, x, memory, mask, memory_mask):
    """n = norm₁(x + causal(x)),  c = norm₂(n + cross(n, memory)),  y = norm₃(c + FFN(c))"""
    n = wired.norm(f"{layer}.norm_1", wired.add(f"{layer}.residual_1", x, wired.attend(f"{layer}.self_attention", x, x, mask)))
    c = wired.norm(f"{layer}.norm_2", wired.add(f"{layer}.residual_2", n, wired.attend(f"{layer}.cross_attention", n, memory, memory_mask)))
    return wired.norm(f"{layer}.norm_3", wired.add(f"{layer}.residual_3", c, wired.feed(f"{layer}.feed_forward", c)))
