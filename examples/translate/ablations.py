"""What each ingredient is worth: the same short run with one of them left out, on several seeds.

python -m examples.translate ablations --out examples/translate/results/ablations.json
"""

import tempfile
from collections.abc import Callable

from byhand.torch.attention import MultiHeadAttention
from byhand.torch.transformer import DecoderLayer, EncoderLayer, Transformer

from .settings import Settings, from_dict
from .train import train


class WithoutResiduals(Transformer):
    """norm(f(x)) in place of norm(x + f(x))"""

    def __init__(self, config, seed=0):
        super().__init__(config, seed)
        for layer in self.encoder:
            layer.__class__ = _EncoderLayerWithoutResiduals
        for layer in self.decoder:
            layer.__class__ = _DecoderLayerWithoutResiduals


class _EncoderLayerWithoutResiduals(EncoderLayer):
    def forward(self, x, mask=None, *rest):
        x = self.norm_1(self.self_attention(x, x, mask))
        return self.norm_2(self.feed_forward(x))


class _DecoderLayerWithoutResiduals(DecoderLayer):
    def forward(self, y, memory, source_mask=None, target_mask=None, *rest):
        y = self.norm_1(self.self_attention(y, y, target_mask, causal=True))
        y = self.norm_2(self.cross_attention(y, memory, source_mask))
        return self.norm_3(self.feed_forward(y))


class WithoutScaling(Transformer):
    """softmax(q kᵀ) in place of softmax(q kᵀ / √d_k)"""

    def __init__(self, config, seed=0):
        super().__init__(config, seed)
        _attention_becomes(self, _AttentionWithoutScaling)


class _AttentionWithoutScaling(MultiHeadAttention):
    def mix(self, q, *rest, **options):
        return super().mix(q * q.shape[-1] ** 0.5, *rest, **options)


class WithoutCausalMask(Transformer):
    """The decoder sees what it is to say."""

    def __init__(self, config, seed=0):
        super().__init__(config, seed)
        _attention_becomes(self, _AttentionWithoutCausalMask)


class _AttentionWithoutCausalMask(MultiHeadAttention):
    def forward(self, x, memory, mask=None, causal=False, *rest, **options):
        return super().forward(x, memory, mask, False, *rest, **options)


class WithoutPaddingMask(Transformer):
    """Padding is attended to like any token; it is still not scored."""

    def forward(self, source, decoder_input, source_lengths=None, target_lengths=None, activations=None):
        return super().forward(source, decoder_input, None, None, activations)

    def encode(self, source, mask=None, *rest):
        return super().encode(source, None, *rest)

    def decode(self, decoder_input, memory, source_mask=None, target_mask=None, *rest):
        return super().decode(decoder_input, memory, None, None, *rest)


def _attention_becomes(module, kind):
    for one in module.modules():
        if type(one) is MultiHeadAttention:
            one.__class__ = kind


# name: (what changes in the settings, the model)
VARIANTS: dict[str, tuple[dict[str, dict], Callable[..., Transformer]]] = {
    "everything": ({}, Transformer),
    "positions": ({"model": {"positions": "none"}}, Transformer),
    "causal mask": ({}, WithoutCausalMask),
    "padding mask": ({}, WithoutPaddingMask),
    "residuals": ({}, WithoutResiduals),
    "scaling by √d_k": ({}, WithoutScaling),
    "label smoothing": ({"training": {"smoothing": 0.0}}, Transformer),
    "warm-up": ({"training": {"warmup": 1}}, Transformer),
}


def ablations(settings: Settings, seeds: list[int], say: Callable[[str], None] = print) -> dict:
    """For each variant and seed the scores on the validation part after the settings' steps.

    A seed draws the weights, the sentences and their order.
    """
    found: dict[str, list[dict]] = {name: [] for name in VARIANTS}
    for seed in seeds:
        for name, (changes, make) in VARIANTS.items():
            told = {part: values | changes.get(part, {}) for part, values in settings.as_dict().items()}
            told["model"]["seed"] = told["data"]["seed"] = seed
            found[name].append(_last_scores(from_dict(told), make))
            say(f"{name}, seed {seed}: {found[name][-1]}")
    return {"steps": settings.training.steps, "seeds": seeds, "settings": settings.as_dict(), "left out": found}


def _last_scores(settings, make):
    said = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            log = train(settings, folder, device="cpu", progress=False, say=said.append, make=make).log
        except (RuntimeError, FloatingPointError) as error:  # a variant may fail to learn, which is its result
            return {"loss": None, "token accuracy": 0.0, "exact": 0.0, "failed": str(error)}
    return log[-1]["validation"]
