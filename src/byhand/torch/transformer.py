"""The encoder-decoder of 2017, as nn.Modules under the parameter names that every floor shares."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..config import Config
from ..parameters import draw, encoder_decoder_shapes, position_shapes
from ..record import Record, nothing
from .attention import MultiHeadAttention
from .embedding import embed, table
from .feed_forward import FeedForward
from .inputs import check_activations, check_lengths, check_tokens, key_mask, plain
from .linear import Linear
from .norm import LayerNorm
from .weights import Weights, numpy_default

(embed,) = plain(embed)
POSITIONS = ("source_positions", "target_positions")


class Transformer(Weights):
    """logits = decoder(decoder_input, encoder(source)) W + b     (Vaswani et al. 2017, figure 1)

    module = Transformer(config).load_params(params)       # a dict of arrays, as byhand.numpy has it
    logits = module(source, decoder_input)                 # (batch, time, target_vocab)
    loss.cross_entropy(logits, targets).backward()
    module.grads()                                         # a dict of arrays, the same names

    It starts from the same values as the NumPy floor's transformer.init(config, seed), in PyTorch's default dtype.
    """

    def __init__(self, config: Config, seed: int = 0):
        super().__init__()
        shapes = encoder_decoder_shapes(config)
        self.config = config
        for name in dict.fromkeys((*config.tables, *position_shapes(config, *POSITIONS))):
            setattr(self, name, table(*shapes[name]))
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_layers))
        self.output = Linear(config.d_model, config.target_vocab, config.tied, "output" in config.biases)
        self.load_params(draw(shapes, seed, numpy_default()))

    def forward(
        self,
        source: Int[Tensor, "batch t_s"],
        decoder_input: Int[Tensor, "batch t_t"],
        source_lengths: Int[Tensor, "batch"] | None = None,
        target_lengths: Int[Tensor, "batch"] | None = None,
        activations: dict[str, Tensor] | None = None,
        look: bool = True,
    ) -> Float[Tensor, "batch t_t target_vocab"]:
        """logits[b, t, c]: how strongly class c is expected after decoder_input[b, :t+1]

        Tokens may be tensors or integer arrays. Positions at or beyond a sequence's length are padding: nothing attends to them.
        A dict given as `activations` is filled with every intermediate tensor under its dotted name (attention and norm then go step by step).

        look=False takes the tokens' and the lengths' values as they are: once they are on the device, nothing waits for it. The look is left
        out on the meta device and while a compiler traces.

        Raises IndexError for a token outside the vocabulary, ValueError for anything else that cannot be meant.
        """
        check_activations(activations)
        config, device, record = self.config, self.tables[0].device, nothing if activations is None else Record(activations)
        source = check_tokens("source", source, config.source_vocab, config.max_length, device, look)
        decoder_input = check_tokens("decoder_input", decoder_input, config.target_vocab, config.max_length, device, look)
        if len(source) != len(decoder_input):
            raise ValueError(f"decoder_input had {len(decoder_input)} sequences and source {len(source)}; a batch must have as many of each")
        source_mask = _mask("source_lengths", source_lengths, source, look)
        target_mask = _mask("target_lengths", target_lengths, decoder_input, look)
        memory = self.encode(source, source_mask, record.inside("encoder"))
        y = self.decode(decoder_input, memory, source_mask, target_mask, record.inside("decoder"))
        w = self.tables[1].T if config.tied else None
        return record("logits", self.output(y, w))

    def encode(self, source: Tensor, mask: Tensor | None, record: Record = nothing) -> Float[Tensor, "batch t_s d_model"]:
        x = self._embed(source, 0, record)
        for i, layer in enumerate(self.encoder):
            x = layer(x, mask, record.inside(f"{i}"))
        return record("memory", x)

    def decode(self, decoder_input: Tensor, memory: Tensor, source_mask: Tensor | None, target_mask: Tensor | None, record: Record = nothing):
        y = self._embed(decoder_input, 1, record)
        for i, layer in enumerate(self.decoder):
            y = layer(y, memory, source_mask, target_mask, record.inside(f"{i}"))
        return record("out", y)

    @property
    def tables(self) -> tuple[Tensor, Tensor]:
        """What source and target are looked up in."""
        source, target = (getattr(self, name) for name in self.config.tables)
        return source, target

    def _embed(self, tokens, side, record):
        steps = torch.arange(tokens.shape[1], device=tokens.device)
        return embed(tokens, steps, self.tables[side], getattr(self, POSITIONS[side], None), self.config, record)


class EncoderLayer(nn.Module):
    """x ← norm(x + self_attention(x)), x ← norm(x + feed_forward(x))"""

    def __init__(self, config: Config):
        super().__init__()
        self.self_attention = MultiHeadAttention.of(config)
        self.norm_1 = LayerNorm(config.d_model, config.eps)
        self.feed_forward = FeedForward.of(config)
        self.norm_2 = LayerNorm(config.d_model, config.eps)

    def forward(self, x: Float[Tensor, "batch t_s d_model"], mask: Bool[Tensor, "batch 1 1 t_s"] | None = None, record: Record = nothing):
        x = record("residual_1", x + self.self_attention(x, x, mask, record=record.inside("self_attention")))
        x = self.norm_1(x, record.inside("norm_1"))
        x = record("residual_2", x + self.feed_forward(x, record.inside("feed_forward")))
        return self.norm_2(x, record.inside("norm_2"))


class DecoderLayer(nn.Module):
    """y ← norm(y + self_attention(y)), y ← norm(y + cross_attention(y, memory)), y ← norm(y + feed_forward(y))"""

    def __init__(self, config: Config):
        super().__init__()
        self.self_attention = MultiHeadAttention.of(config)
        self.norm_1 = LayerNorm(config.d_model, config.eps)
        self.cross_attention = MultiHeadAttention.of(config)
        self.norm_2 = LayerNorm(config.d_model, config.eps)
        self.feed_forward = FeedForward.of(config)
        self.norm_3 = LayerNorm(config.d_model, config.eps)

    def forward(
        self,
        y: Float[Tensor, "batch t_t d_model"],
        memory: Float[Tensor, "batch t_s d_model"],
        source_mask: Bool[Tensor, "batch 1 1 t_s"] | None = None,
        target_mask: Bool[Tensor, "batch 1 1 t_t"] | None = None,
        record: Record = nothing,
    ) -> Float[Tensor, "batch t_t d_model"]:
        y = record("residual_1", y + self.self_attention(y, y, target_mask, causal=True, record=record.inside("self_attention")))
        y = self.norm_1(y, record.inside("norm_1"))
        y = record("residual_2", y + self.cross_attention(y, memory, source_mask, record=record.inside("cross_attention")))
        y = self.norm_2(y, record.inside("norm_2"))
        y = record("residual_3", y + self.feed_forward(y, record.inside("feed_forward")))
        return self.norm_3(y, record.inside("norm_3"))


def _mask(name, lengths, beside, look):
    """(batch, 1, 1, time), to be broadcast over heads and queries."""
    if lengths is None:
        return None
    return key_mask(check_lengths(name, lengths, beside, look), beside.shape[1])[:, None, None, :]
