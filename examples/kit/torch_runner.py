"""The transformers of the kit in PyTorch, their gradients by autograd, held against its files: python torch_runner.py FILE...

Plain PyTorch, without the book's package: it stands for an implementation of your own. Exit code 0 where every file passes.
"""

import math
import sys

import torch
import torch.nn.functional as F
from kit_files import main, refuse_others


class Model:
    """A pass with parameters p; `a` keeps what the forward has made, and `only_back` what has a name on the way back alone."""

    def __init__(self, config, p):
        self.c, self.p, self.a, self.only_back = config, p, {}, {}

    def encoder_decoder(self, source, tokens, allowed, real):
        x = self.embed("encoder.", source, self.p["source_embedding"])
        for i in range(self.c["n_layers"]):
            x = self.post_block(f"encoder.{i}", "self_attention", x, real)
        memory = self.keep("encoder.memory", x)
        x = self.embed("decoder.", tokens, self.p["target_embedding"])
        for i in range(self.c["n_layers"]):
            at = f"decoder.{i}"
            self.only_back[f"{at}.input"] = x
            n = self.norm(f"{at}.norm_1", self.keep(f"{at}.residual_1", x + self.attend(f"{at}.self_attention", x, x, allowed)))
            c = self.norm(f"{at}.norm_2", self.keep(f"{at}.residual_2", n + self.attend(f"{at}.cross_attention", n, memory, real)))
            x = self.norm(f"{at}.norm_3", self.keep(f"{at}.residual_3", c + self.network(f"{at}.feed_forward", c)))
        return self.logits(self.keep("decoder.out", x), "target_embedding")

    def stack(self, tokens, allowed):
        x = self.embed("", tokens, self.p["embedding"])
        for i in range(self.c["n_layers"]):
            x = (self.post_block if self.c["norm"] == "post" else self.pre_block)(f"block.{i}", "attention", x, allowed)
        x = x if self.c["norm"] == "post" else self.norm("norm", x)
        return self.logits(self.keep("out", x), "embedding")

    def post_block(self, at, attention, x, allowed):
        self.only_back[f"{at}.input"] = x
        u = self.norm(f"{at}.norm_1", self.keep(f"{at}.residual_1", x + self.attend(f"{at}.{attention}", x, x, allowed)))
        return self.norm(f"{at}.norm_2", self.keep(f"{at}.residual_2", u + self.network(f"{at}.feed_forward", u)))

    def pre_block(self, at, attention, x, allowed):
        self.only_back[f"{at}.input"] = x
        n = self.norm(f"{at}.norm_1", x)
        u = self.keep(f"{at}.residual_1", x + self.attend(f"{at}.{attention}", n, n, allowed))
        return self.keep(f"{at}.residual_2", u + self.network(f"{at}.feed_forward", self.norm(f"{at}.norm_2", u)))

    # ---- the parts ----

    def keep(self, name, x):
        self.a[name] = x
        return x

    def embed(self, at, tokens, table):
        x, d = self.keep(f"{at}embedded", math.sqrt(self.c["d_model"]) * table[tokens]), self.c["d_model"]
        if self.c["positions"] == "sinusoidal":
            angle = torch.arange(tokens.shape[1])[:, None] / 10000 ** (torch.arange(0, d, 2, dtype=x.dtype) / d)
            x = x + self.keep(f"{at}positions", torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1))
        return self.keep(f"{at}input", x)

    def norm(self, at, x):
        if self.c["norm_kind"] == "layer":
            x = x - self.keep(f"{at}.mean", x.mean(dim=-1, keepdim=True))
        square = self.keep(f"{at}.{'var' if self.c['norm_kind'] == 'layer' else 'mean_square'}", (x * x).mean(dim=-1, keepdim=True))
        n = self.keep(f"{at}.normalised", x / (square + self.c["eps"]).sqrt())
        return self.keep(f"{at}.out", n * self.p[f"{at}.gamma"] + self.p.get(f"{at}.beta", 0))

    def attend(self, at, x, memory, allowed):
        q, k, v = (
            self.rotated(f"{at}.{name}", (rows @ self.p[f"{at}.w_{name}"]).unflatten(2, (heads, -1)).transpose(1, 2))
            for name, rows, heads in (("q", x, self.c["n_heads"]), ("k", memory, self.c["n_kv_heads"]), ("v", memory, self.c["n_kv_heads"]))
        )
        share = self.c["n_heads"] // self.c["n_kv_heads"]
        if share > 1:
            k = self.only_back[f"{at}.k_per_query_head"] = k.repeat_interleave(share, dim=1)
            v = self.only_back[f"{at}.v_per_query_head"] = v.repeat_interleave(share, dim=1)
        scores = self.keep(f"{at}.scores", q @ k.transpose(2, 3) / math.sqrt(self.c["d_k"]))
        weights = self.keep(f"{at}.weights", scores.masked_fill(~allowed, -math.inf).softmax(dim=-1))
        concat = self.keep(f"{at}.concat", self.keep(f"{at}.mixed", weights @ v).transpose(1, 2).flatten(2))
        return self.keep(f"{at}.out", concat @ self.p[f"{at}.w_o"])

    def rotated(self, name, x):
        if self.c["positions"] == "rope" and not name.endswith("v"):
            self.keep(f"{name}_unrotated", x)
            angle = torch.arange(x.shape[2])[:, None] * 10000.0 ** (-torch.arange(0, x.shape[3], 2, dtype=x.dtype) / x.shape[3])
            x = torch.view_as_real(torch.view_as_complex(x.unflatten(3, (-1, 2)).contiguous()) * torch.polar(torch.ones_like(angle), angle)).flatten(3)
        return self.keep(name, x)

    def network(self, at, x):
        hidden = self.keep(f"{at}.hidden", x @ self.p[f"{at}.w_1"] + self.p[f"{at}.b_1"])
        bends = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "swiglu": F.silu}
        active = bends[self.c["activation"]](hidden)
        if self.c["activation"] == "swiglu":
            active = active * self.keep(f"{at}.gate", x @ self.p[f"{at}.w_3"])
        return self.keep(f"{at}.out", self.keep(f"{at}.active", active) @ self.p[f"{at}.w_2"] + self.p[f"{at}.b_2"])

    def logits(self, x, table):
        return self.keep("logits", x @ (self.p[table].T if self.c["tied"] else self.p["output.w"]) + self.p["output.b"])


def real(tokens, lengths):
    """True where a key is no padding, to broadcast over heads and queries."""
    ends = torch.full((len(tokens),), tokens.shape[1]) if lengths is None else lengths
    return (torch.arange(tokens.shape[1]) < ends[:, None])[:, None, None, :]


def loss_of(logits, targets, lengths, reduction, smoothing):
    time = torch.arange(targets.shape[1])
    ends = torch.full((len(targets), 1), targets.shape[1]) if lengths is None else lengths[:, None]
    scored = time == ends - 1 if reduction == "last" else time < ends
    how = "sum" if reduction == "sum" else "mean"
    return F.cross_entropy(logits[scored], targets[scored], label_smoothing=smoothing, reduction=how)


def passed(about, given, params):
    """The model after a forward and a backward pass, and the loss."""
    model, tokens, lengths = Model(about["config"], params), given["decoder_input"], given.get("target_lengths")
    allowed = real(tokens, lengths) & torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
    if "source" in given:
        logits = model.encoder_decoder(given["source"], tokens, allowed, real(given["source"], given.get("source_lengths")))
    else:
        logits = model.stack(tokens, allowed)
    for x in (model.a | model.only_back).values():
        if x.requires_grad:
            x.retain_grad()
    loss = loss_of(logits, given["targets"], lengths, about["loss"]["reduction"], about["loss"]["smoothing"])
    loss.backward()
    return model, loss


def step(about, given):
    """Everything that the kit has: a step, Adam's first update, a second step, and the second update."""
    refuse_others(
        about["config"], positions=["sinusoidal", "rope", "none"], pairing=["interleaved"], biases=[["feed_forward", "output"]], scaled=[True], shared=[False]
    )
    given = {name: torch.tensor(array) for name, array in given.items()}
    params = {name.removeprefix("parameters/"): x.requires_grad_() for name, x in given.items() if name.startswith("parameters/")}
    how, mine = about["adam"], {}
    adam = torch.optim.Adam(params.values(), lr=how["lr"], betas=(how["beta_1"], how["beta_2"]), eps=how["eps"])
    for t in (1, 2):
        adam.zero_grad()
        model, loss = passed(about, given, params)
        if t == 1:
            mine = {f"activations/{name}": x for name, x in model.a.items()} | {"loss": loss}
            for name, x in (model.a | model.only_back | params).items():
                if x.grad is not None:
                    mine[f"gradients/{name}"] = x.grad.clone()
        adam.step()
        mine |= {f"parameters_{t}/{name}": x.detach().clone() for name, x in params.items()}
    return {name: x.detach().numpy() for name, x in mine.items()}


if __name__ == "__main__":
    main(step, sys.argv[1:])
