"""The rooms of one sequence wired together, for any way of carrying a value (see carry): what both networks are made of."""

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

    def embed(self, prefix: str, table: str, tokens: tuple[int, ...]):
        """√d E[tokens], and the sinusoids added where the model has them."""
        x = self(f"{prefix}embedded", embedding.embedding, self.params[table], tokens=tokens)
        if self.config.positions == "sinusoidal":
            waves = self(f"{prefix}positions", position.sinusoidal, length=len(tokens), d_model=self.config.d_model)
            x = self.carry.apply(linear.add, x, waves)
        return self.record(f"{prefix}input", x)

    def attend(self, name: str, x, memory, mask, positions: tuple[int, ...] | None = None):
        """Multi-head attention of x to memory; with positions, queries and keys are rotated by them first."""
        config, carry = self.config, self.carry
        q, k, v = (carry.apply(linear.linear, rows, self.params[f"{name}.w_{c}"]) for c, rows in (("q", x), ("k", memory), ("v", memory)))
        shared = config.n_heads // config.n_kv_heads
        steps = {}
        for head in range(config.n_heads):
            kv = head // shared
            one = {"q": self._block(q, head, config.d_k), "k": self._block(k, kv, config.d_k), "v": self._block(v, kv, config.d_v)}
            if positions is not None:
                one = {"q_unrotated": one["q"], "k_unrotated": one["k"], **one}
                one |= {c: carry.apply(position.rope, one[c], positions=positions) for c in "qk"}
            one["scores"] = carry.apply(attention.scores, one["q"], one["k"])
            one["weights"] = carry.apply(softmax.softmax, one["scores"], mask=mask)
            one["mixed"] = carry.apply(linear.linear, one["weights"], one["v"])
            for step, value in one.items():
                if step not in ("k", "v", "k_unrotated") or head % shared == 0:
                    steps.setdefault(step, []).append(value)
        for step, values in steps.items():
            self.record(f"{name}.{step}", tuple(values))
        concat = self(f"{name}.concat", attention.side_by_side, *steps["mixed"])
        return self(f"{name}.out", linear.linear, concat, self.params[f"{name}.w_o"])

    def feed(self, name: str, x):
        """The position-wise network with the model's own activation."""
        w = {key: self.params.get(f"{name}.{key}") for key in ("w_1", "b_1", "w_2", "b_2", "w_3")}
        hidden = self(f"{name}.hidden", linear.linear, x, w["w_1"], w["b_1"])
        if self.config.activation == "swiglu":
            gate = self(f"{name}.gate", linear.linear, x, w["w_3"])
            active = self(f"{name}.active", feed_forward.swiglu, hidden, gate)
        else:
            active = self(f"{name}.active", getattr(feed_forward, self.config.activation), hidden)
        return self(f"{name}.out", linear.linear, active, w["w_2"], w["b_2"])

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

    def logits(self, x, table: str):
        """x W + b; with tied weights W is the table, transposed."""
        w = self.carry.apply(linear.transpose, self.params[table]) if self.config.tied else self.params["output.w"]
        return self("logits", linear.linear, x, w, self.params["output.b"])

    def _block(self, x, number, width):
        return self.carry.apply(attention.columns, x, start=number * width, stop=(number + 1) * width)
