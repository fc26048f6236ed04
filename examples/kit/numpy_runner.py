"""The transformers of the kit in NumPy, forward and backward by hand, held against its files: python numpy_runner.py FILE...

It uses nothing of the book's package: it stands for an implementation of your own. Exit code 0 where every file passes.
"""

import sys

import numpy as np
from kit_files import main, refuse_others


class Step:
    """One forward and one backward pass: activations in `a`, gradients of stages and parameters in `g`, by the kit's names."""

    def __init__(self, about, given, params):
        self.c, self.how, self.given, self.p = about["config"], about["loss"], given, params
        self.a, self.g, self.read = {}, {}, {}  # read: what a room has read
        tokens = given["decoder_input"]
        allowed = np.tri(tokens.shape[1], dtype=bool) & self.real("target_lengths", tokens)
        if "source" in given:
            self.encoder_decoder(given["source"], tokens, allowed, self.real("source_lengths", given["source"]))
        else:
            self.stack(tokens, allowed)

    def real(self, lengths, tokens):
        """True where a key is no padding, to broadcast over heads and queries."""
        ends = self.given.get(lengths, np.full(len(tokens), tokens.shape[1]))
        return (np.arange(tokens.shape[1]) < ends[:, None])[:, None, None, :]

    def add(self, name, grad):
        self.g[name] = self.g.get(name, 0) + grad

    # ---- the two models ----

    def encoder_decoder(self, source, tokens, allowed, real):
        layers, p, a, g = range(self.c["n_layers"]), self.p, self.a, self.g
        x = self.embed("encoder.", source, p["source_embedding"])
        for i in layers:
            x = self.post_block(f"encoder.{i}", "self_attention", x, real)
        memory = a["encoder.memory"] = x
        x = self.embed("decoder.", tokens, p["target_embedding"])
        for i in layers:
            at = f"decoder.{i}"
            a[f"{at}.residual_1"] = x + self.attend(f"{at}.self_attention", x, x, allowed)
            n = self.norm(f"{at}.norm_1", a[f"{at}.residual_1"])
            a[f"{at}.residual_2"] = n + self.attend(f"{at}.cross_attention", n, memory, real)
            n = self.norm(f"{at}.norm_2", a[f"{at}.residual_2"])
            a[f"{at}.residual_3"] = n + self.network(f"{at}.feed_forward", n)
            x = self.norm(f"{at}.norm_3", a[f"{at}.residual_3"])
        a["decoder.out"] = x

        d, dmemory = self.output(x, "target_embedding"), 0
        g["decoder.out"] = d
        for i in reversed(layers):
            at = f"decoder.{i}"
            g[f"{at}.residual_3"] = self.norm_back(f"{at}.norm_3", d)
            d = g[f"{at}.residual_3"] + self.network_back(f"{at}.feed_forward", g[f"{at}.residual_3"])
            g[f"{at}.residual_2"] = self.norm_back(f"{at}.norm_2", d)
            dq, dk, dv = self.attend_back(f"{at}.cross_attention", g[f"{at}.residual_2"])
            dmemory = dmemory + dk + dv
            g[f"{at}.residual_1"] = self.norm_back(f"{at}.norm_1", g[f"{at}.residual_2"] + dq)
            d = g[f"{at}.input"] = g[f"{at}.residual_1"] + sum(self.attend_back(f"{at}.self_attention", g[f"{at}.residual_1"]))
        self.embed_back("decoder.", tokens, "target_embedding", d)
        d = g["encoder.memory"] = dmemory
        for i in reversed(layers):
            d = self.post_block_back(f"encoder.{i}", "self_attention", d)
        self.embed_back("encoder.", source, "source_embedding", d)

    def stack(self, tokens, allowed):
        layers, post = range(self.c["n_layers"]), self.c["norm"] == "post"
        x = self.embed("", tokens, self.p["embedding"])
        for i in layers:
            x = (self.post_block if post else self.pre_block)(f"block.{i}", "attention", x, allowed)
        x = self.a["out"] = x if post else self.norm("norm", x)
        d = self.g["out"] = self.output(x, "embedding")
        d = d if post else self.norm_back("norm", d)
        for i in reversed(layers):
            d = (self.post_block_back if post else self.pre_block_back)(f"block.{i}", "attention", d)
        self.embed_back("", tokens, "embedding", d)

    def post_block(self, at, attention, x, allowed):
        self.a[f"{at}.residual_1"] = x + self.attend(f"{at}.{attention}", x, x, allowed)
        u = self.norm(f"{at}.norm_1", self.a[f"{at}.residual_1"])
        self.a[f"{at}.residual_2"] = u + self.network(f"{at}.feed_forward", u)
        return self.norm(f"{at}.norm_2", self.a[f"{at}.residual_2"])

    def post_block_back(self, at, attention, d):
        d = self.g[f"{at}.residual_2"] = self.norm_back(f"{at}.norm_2", d)
        d = self.g[f"{at}.residual_1"] = self.norm_back(f"{at}.norm_1", d + self.network_back(f"{at}.feed_forward", d))
        d = self.g[f"{at}.input"] = d + sum(self.attend_back(f"{at}.{attention}", d))
        return d

    def pre_block(self, at, attention, x, allowed):
        n = self.norm(f"{at}.norm_1", x)
        u = self.a[f"{at}.residual_1"] = x + self.attend(f"{at}.{attention}", n, n, allowed)
        y = self.a[f"{at}.residual_2"] = u + self.network(f"{at}.feed_forward", self.norm(f"{at}.norm_2", u))
        return y

    def pre_block_back(self, at, attention, d):
        self.g[f"{at}.residual_2"] = d
        d = self.g[f"{at}.residual_1"] = d + self.norm_back(f"{at}.norm_2", self.network_back(f"{at}.feed_forward", d))
        d = self.g[f"{at}.input"] = d + self.norm_back(f"{at}.norm_1", sum(self.attend_back(f"{at}.{attention}", d)))
        return d

    # ---- their parts, each with its way back under it ----

    def linear_back(self, x, dy, w, b=None):
        rows, drows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
        self.add(w, rows.T @ drows)
        if b:
            self.add(b, drows.sum(axis=0))
        return dy @ self.p[w].T

    def embed(self, at, tokens, table):
        x = self.a[f"{at}embedded"] = np.sqrt(self.c["d_model"]) * table[tokens]
        if self.c["positions"] == "sinusoidal":
            angle = np.arange(tokens.shape[1])[:, None] / 10000 ** (np.arange(0, self.c["d_model"], 2) / self.c["d_model"])
            waves = self.a[f"{at}positions"] = np.stack((np.sin(angle), np.cos(angle)), axis=-1).reshape(tokens.shape[1], -1)
            x = x + waves
        self.a[f"{at}input"] = x
        return x

    def embed_back(self, at, tokens, table, dy):
        self.g[f"{at}input"] = dy
        dtable = np.zeros_like(self.p[table])
        np.add.at(dtable, tokens, np.sqrt(self.c["d_model"]) * dy)  # adds once for each place where a token stands
        self.add(table, dtable)

    def norm(self, at, x):
        if self.c["norm_kind"] == "layer":
            self.a[f"{at}.mean"] = x.mean(axis=-1, keepdims=True)
            x = x - self.a[f"{at}.mean"]
        square = self.a[f"{at}.{'var' if self.c['norm_kind'] == 'layer' else 'mean_square'}"] = (x * x).mean(axis=-1, keepdims=True)
        n = self.a[f"{at}.normalised"] = x / np.sqrt(square + self.c["eps"])
        y = self.a[f"{at}.out"] = n * self.p[f"{at}.gamma"] + self.p.get(f"{at}.beta", 0)
        return y

    def norm_back(self, at, dy):
        layer, n = self.c["norm_kind"] == "layer", self.a[f"{at}.normalised"]
        self.g[f"{at}.out"] = dy
        self.g[f"{at}.gamma"] = (dy * n).sum(axis=(0, 1))
        if layer:
            self.g[f"{at}.beta"] = dy.sum(axis=(0, 1))
        d = dy * self.p[f"{at}.gamma"]
        dx = d - n * (d * n).mean(axis=-1, keepdims=True) - layer * d.mean(axis=-1, keepdims=True)
        return dx / np.sqrt(self.a[f"{at}.{'var' if layer else 'mean_square'}"] + self.c["eps"])

    def rotated(self, x, way=1):
        angle = np.arange(x.shape[2])[:, None] * 10000.0 ** (-np.arange(0, x.shape[3], 2) / x.shape[3])
        cos, sin, y = np.cos(angle), way * np.sin(angle), np.empty_like(x)
        y[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
        y[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
        return y

    def attend(self, at, x, memory, allowed):
        a, p, share = self.a, self.p, self.c["n_heads"] // self.c["n_kv_heads"]
        self.read[at] = x, memory
        for name, rows, n in (("q", x, self.c["n_heads"]), ("k", memory, self.c["n_kv_heads"]), ("v", memory, self.c["n_kv_heads"])):
            y = rows @ p[f"{at}.w_{name}"]
            y = y.reshape(*y.shape[:2], n, -1).swapaxes(1, 2)
            if self.c["positions"] == "rope" and name != "v":
                a[f"{at}.{name}_unrotated"] = y
                y = self.rotated(y)
            a[f"{at}.{name}"] = y
        k, v = a[f"{at}.k"].repeat(share, axis=1), a[f"{at}.v"].repeat(share, axis=1)
        scores = a[f"{at}.scores"] = a[f"{at}.q"] @ k.swapaxes(2, 3) / np.sqrt(self.c["d_k"])
        scores = np.where(allowed, scores, -np.inf)
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = a[f"{at}.weights"] = e / e.sum(axis=-1, keepdims=True)
        mixed = a[f"{at}.mixed"] = weights @ v
        concat = a[f"{at}.concat"] = mixed.swapaxes(1, 2).reshape(*x.shape[:2], -1)
        y = a[f"{at}.out"] = concat @ p[f"{at}.w_o"]
        return y

    def attend_back(self, at, dy):
        """By queries, keys and values."""
        a, g, (x, memory) = self.a, self.g, self.read[at]
        heads, kv, scale = self.c["n_heads"], self.c["n_kv_heads"], 1 / np.sqrt(self.c["d_k"])
        k, v = a[f"{at}.k"].repeat(heads // kv, axis=1), a[f"{at}.v"].repeat(heads // kv, axis=1)
        g[f"{at}.out"] = dy
        dconcat = g[f"{at}.concat"] = self.linear_back(a[f"{at}.concat"], dy, f"{at}.w_o")
        dmixed = g[f"{at}.mixed"] = dconcat.reshape(*dy.shape[:2], heads, -1).swapaxes(1, 2)
        weights, dweights = a[f"{at}.weights"], dmixed @ v.swapaxes(2, 3)
        g[f"{at}.weights"] = dweights
        dscores = g[f"{at}.scores"] = weights * (dweights - (dweights * weights).sum(axis=-1, keepdims=True))
        d = {"q": scale * dscores @ k, "k": scale * dscores.swapaxes(2, 3) @ a[f"{at}.q"], "v": weights.swapaxes(2, 3) @ dmixed}
        ways = []
        for name, rows in (("q", x), ("k", memory), ("v", memory)):
            grad = d[name]
            if name != "q" and kv < heads:  # neighbouring query heads have read one head of keys and values
                g[f"{at}.{name}_per_query_head"] = grad
                grad = grad.reshape(len(grad), kv, -1, *grad.shape[2:]).sum(axis=2)
            g[f"{at}.{name}"] = grad
            if self.c["positions"] == "rope" and name != "v":
                grad = g[f"{at}.{name}_unrotated"] = self.rotated(grad, -1)
            ways.append(self.linear_back(rows, grad.swapaxes(1, 2).reshape(*rows.shape[:2], -1), f"{at}.w_{name}"))
        return ways

    def network(self, at, x):
        a, p = self.a, self.p
        self.read[at] = x
        hidden = a[f"{at}.hidden"] = x @ p[f"{at}.w_1"] + p[f"{at}.b_1"]
        active = bent(hidden, self.c["activation"])[0]
        if self.c["activation"] == "swiglu":
            a[f"{at}.gate"] = x @ p[f"{at}.w_3"]
            active = active * a[f"{at}.gate"]
        a[f"{at}.active"] = active
        y = a[f"{at}.out"] = active @ p[f"{at}.w_2"] + p[f"{at}.b_2"]
        return y

    def network_back(self, at, dy):
        a, g = self.a, self.g
        g[f"{at}.out"] = dy
        d = g[f"{at}.active"] = self.linear_back(a[f"{at}.active"], dy, f"{at}.w_2", f"{at}.b_2")
        y, slope = bent(a[f"{at}.hidden"], self.c["activation"])
        via_gate = 0
        if self.c["activation"] == "swiglu":
            g[f"{at}.gate"] = d * y
            via_gate, d = self.linear_back(self.read[at], d * y, f"{at}.w_3"), d * a[f"{at}.gate"]
        g[f"{at}.hidden"] = d * slope
        return self.linear_back(self.read[at], d * slope, f"{at}.w_1", f"{at}.b_1") + via_gate

    def output(self, x, table):
        """Logits, loss, and the way back to x."""
        tied, targets, smoothing = self.c["tied"], self.given["targets"], self.how["smoothing"]
        z = self.a["logits"] = x @ (self.p[table].T if tied else self.p["output.w"]) + self.p["output.b"]
        ends = self.given.get("target_lengths", np.full(len(targets), targets.shape[1]))[:, None]
        steps = np.arange(targets.shape[1])
        scored = steps == ends - 1 if self.how["reduction"] == "last" else steps < ends
        weight = (scored if self.how["reduction"] == "sum" else scored / scored.sum())[..., None]
        log_p = z - z.max(axis=-1, keepdims=True)
        log_p = log_p - np.log(np.exp(log_p).sum(axis=-1, keepdims=True))
        q = (1 - smoothing) * np.eye(z.shape[-1])[targets] + smoothing / z.shape[-1]
        self.loss = -(weight * q * log_p).sum()
        dz = self.g["logits"] = weight * (np.exp(log_p) - q)
        if tied:
            self.g["output.b"] = dz.sum(axis=(0, 1))
            self.add(table, np.einsum("btv,btd->vd", dz, x))
            return dz @ self.p[table]
        return self.linear_back(x, dz, "output.w", "output.b")


def bent(x, activation):
    """The activation, and its slope."""
    if activation == "relu":
        return np.maximum(x, 0), x > 0
    if activation == "swiglu":
        s = 1 / (1 + np.exp(-x))
        return x * s, s * (1 + x * (1 - s))
    t = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))  # GELU, by its approximation
    return x / 2 * (1 + t), (1 + t) / 2 + x / 2 * (1 - t * t) * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x * x)


def step(about, given):
    """Everything that the kit has: a step, Adam's first update, a second step, and the second update."""
    refuse_others(
        about["config"], positions=["sinusoidal", "rope", "none"], activation=["relu", "swiglu", "gelu_tanh"], pairing=["interleaved"],
        biases=[["feed_forward", "output"]], scaled=[True], shared=[False],
    )  # fmt: skip
    params = {name.removeprefix("parameters/"): array for name, array in given.items() if name.startswith("parameters/")}
    adam, m, v, mine = about["adam"], dict.fromkeys(params, 0), dict.fromkeys(params, 0), {}
    for t in (1, 2):
        run = Step(about, given, params)
        if t == 1:
            mine = {f"activations/{name}": array for name, array in run.a.items()} | {"loss": run.loss}
            mine |= {f"gradients/{name}": array for name, array in run.g.items()}
        for name in params:
            m[name] = adam["beta_1"] * m[name] + (1 - adam["beta_1"]) * run.g[name]
            v[name] = adam["beta_2"] * v[name] + (1 - adam["beta_2"]) * run.g[name] ** 2
            m_hat, v_hat = m[name] / (1 - adam["beta_1"] ** t), v[name] / (1 - adam["beta_2"] ** t)
            mine[f"parameters_{t}/{name}"] = params[name] - adam["lr"] * m_hat / (np.sqrt(v_hat) + adam["eps"])
        params = {name: mine[f"parameters_{t}/{name}"] for name in params}
    return mine


if __name__ == "__main__":
    main(step, sys.argv[1:])
