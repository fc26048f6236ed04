"""The two models as an expert would write them in PyTorch: functions, packed projections, fused attention.

What each is measured against: the same parameters, the same numbers, and nothing of this package's own PyTorch floor.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F

from byhand import Config
from byhand.numpy import position


def leaf(*arrays: np.ndarray) -> torch.Tensor:
    """Matrices for x @ w, side by side, as one weight for F.linear."""
    return torch.tensor(np.ascontiguousarray(np.concatenate(arrays, axis=-1).T))


def heads(x: torch.Tensor, count: int) -> torch.Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def attend(q, k, v, n_heads, w_o, causal=False):
    mixed = F.scaled_dot_product_attention(heads(q, n_heads), heads(k, n_heads), heads(v, n_heads), is_causal=causal)
    return F.linear(mixed.transpose(1, 2).flatten(-2), w_o)


class EncoderDecoder:
    """The encoder-decoder of 2017: post-norm, sinusoids, ReLU."""

    def __init__(self, params: dict[str, np.ndarray], config: Config):
        self.config = config
        self.w = w = {name: torch.tensor(value) for name, value in params.items() if value.ndim == 1 or "embedding" in name}
        self.positions = torch.tensor(position.sinusoidal(config.max_length or 1024, config.d_model), dtype=torch.float32)
        for name in params:
            room, _, last = name.rpartition(".")
            if last in ("w_1", "w_2", "w_o", "w"):
                w[name] = leaf(params[name])
            elif last == "w_q" and "cross" in room:
                w[f"{room}.q"], w[f"{room}.kv"] = leaf(params[name]), leaf(params[f"{room}.w_k"], params[f"{room}.w_v"])
            elif last == "w_q":
                w[f"{room}.qkv"] = leaf(*(params[f"{room}.w_{letter}"] for letter in "qkv"))
        self.parameters = [value.requires_grad_() for value in w.values()]

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.w[f"{name}.gamma"], self.w[f"{name}.beta"], self.config.eps)

    def self_attention(self, x, name, causal=False):
        return attend(*F.linear(x, self.w[f"{name}.qkv"]).chunk(3, -1), self.config.n_heads, self.w[f"{name}.w_o"], causal)

    def cross_attention(self, x, memory, name):
        k, v = F.linear(memory, self.w[f"{name}.kv"]).chunk(2, -1)
        return attend(F.linear(x, self.w[f"{name}.q"]), k, v, self.config.n_heads, self.w[f"{name}.w_o"])

    def feed_forward(self, x, name):
        hidden = F.relu(F.linear(x, self.w[f"{name}.w_1"], self.w[f"{name}.b_1"]))
        return F.linear(hidden, self.w[f"{name}.w_2"], self.w[f"{name}.b_2"])

    def embed(self, tokens, table):
        return F.embedding(tokens, self.w[table]) * math.sqrt(self.config.d_model) + self.positions[: tokens.shape[1]]

    def loss(self, source, decoder_input, targets, smoothing):
        x, y = self.embed(source, "source_embedding"), self.embed(decoder_input, "target_embedding")
        for i in range(self.config.n_layers):
            layer = f"encoder.{i}"
            x = self.norm(x + self.self_attention(x, f"{layer}.self_attention"), f"{layer}.norm_1")
            x = self.norm(x + self.feed_forward(x, f"{layer}.feed_forward"), f"{layer}.norm_2")
        for i in range(self.config.n_layers):
            layer = f"decoder.{i}"
            y = self.norm(y + self.self_attention(y, f"{layer}.self_attention", causal=True), f"{layer}.norm_1")
            y = self.norm(y + self.cross_attention(y, x, f"{layer}.cross_attention"), f"{layer}.norm_2")
            y = self.norm(y + self.feed_forward(y, f"{layer}.feed_forward"), f"{layer}.norm_3")
        logits = F.linear(y, self.w["output.w"], self.w["output.b"])
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=smoothing)


class Decoder:
    """The decoder-only stack, one token at a time: pre-norm, RMS norm, rotations, SwiGLU, shared key-value heads, a cache made beforehand."""

    def __init__(self, params: dict[str, np.ndarray], config: Config, time: int):
        self.config, self.w, self.time = config, {}, 0
        for name, value in params.items():
            room, _, last = name.rpartition(".")
            if last in ("w_o", "w_2", "w"):
                self.w[name] = leaf(value)
            elif last == "w_q":
                self.w[f"{room}.qkv"] = leaf(*(params[f"{room}.w_{letter}"] for letter in "qkv"))
            elif last == "w_1":
                self.w[f"{room}.in"] = leaf(value, params[f"{room}.w_3"])
                self.w[f"{room}.in_b"] = torch.tensor(np.concatenate([params[f"{room}.b_1"], np.zeros_like(params[f"{room}.b_1"])]))
            else:
                self.w[name] = torch.tensor(value)
        shape = (config.n_layers, 1, config.n_kv_heads, time)
        self.keys, self.values = torch.zeros(*shape, config.d_k), torch.zeros(*shape, config.d_v)
        angles = torch.outer(torch.arange(time), 10000.0 ** (-torch.arange(0, config.d_k, 2) / config.d_k))
        self.cos, self.sin = angles.cos(), angles.sin()

    def rotated(self, x):
        """Neighbours in pairs."""
        now = slice(self.time, self.time + x.shape[2])
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * self.cos[now] - b * self.sin[now], a * self.sin[now] + b * self.cos[now]), -1).flatten(-2)

    def block(self, x, i):
        config, w, block = self.config, self.w, f"block.{i}"
        sizes = [config.n_heads * config.d_k, config.n_kv_heads * config.d_k, config.n_kv_heads * config.d_v]
        normed = F.rms_norm(x, x.shape[-1:], w[f"{block}.norm_1.gamma"], config.eps)
        q, k, v = F.linear(normed, w[f"{block}.attention.qkv"]).split(sizes, -1)
        end = self.time + x.shape[1]
        self.keys[i, :, :, self.time : end] = self.rotated(heads(k, config.n_kv_heads))
        self.values[i, :, :, self.time : end] = heads(v, config.n_kv_heads)
        q, k, v = self.rotated(heads(q, config.n_heads)), self.keys[i, :, :, :end], self.values[i, :, :, :end]
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=x.shape[1] > 1, enable_gqa=True)
        x = x + F.linear(mixed.transpose(1, 2).flatten(-2), w[f"{block}.attention.w_o"])
        normed = F.rms_norm(x, x.shape[-1:], w[f"{block}.norm_2.gamma"], config.eps)
        hidden, gate = F.linear(normed, w[f"{block}.feed_forward.in"], w[f"{block}.feed_forward.in_b"]).chunk(2, -1)
        return x + F.linear(F.silu(hidden) * gate, w[f"{block}.feed_forward.w_2"], w[f"{block}.feed_forward.b_2"])

    @torch.inference_mode()
    def read(self, tokens: torch.Tensor) -> torch.Tensor:
        """The likeliest token after these; a prompt first, into an empty cache, then one token at a time."""
        x = F.embedding(tokens, self.w["embedding"]) * math.sqrt(self.config.d_model)
        for i in range(self.config.n_layers):
            x = self.block(x, i)
        self.time += tokens.shape[1]
        x = F.rms_norm(x[:, -1:], x.shape[-1:], self.w["norm.gamma"], self.config.eps)
        return F.linear(x, self.w["output.w"], self.w["output.b"]).argmax(-1)
