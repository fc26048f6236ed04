"""The stack against a published implementation of the Llama architecture, tiny, with random weights.

Nothing is downloaded.
"""

import numpy as np
import pytest

from byhand import Config
from byhand.check import agreement
from byhand.numpy import decoder
from byhand.numpy.loss import cross_entropy

transformers = pytest.importorskip("transformers", reason="transformers is not installed; make test installs it")
import torch  # noqa: E402 (the line above decides whether it is needed)

BOUND = 1e-5  # both in float32


def _theirs(n_heads, n_kv_heads, seed):
    config = transformers.LlamaConfig(
        vocab_size=13, hidden_size=12, intermediate_size=20, num_hidden_layers=2, num_attention_heads=n_heads, num_key_value_heads=n_kv_heads,
        head_dim=6, max_position_embeddings=64, rms_norm_eps=1e-5, tie_word_embeddings=False, attn_implementation="eager",
    )  # fmt: skip
    _ = torch.manual_seed(seed)
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.normal_(1.0 if "norm" in name else 0.0, 0.4)
    return model.eval()


def _config(model):
    """What Llama chooses: the embedding not scaled, no bias anywhere, and rope turns coordinate i with i + d_k/2."""
    c = model.config
    return Config(
        d_model=c.hidden_size, n_heads=c.num_attention_heads, n_kv_heads=c.num_key_value_heads, d_k=c.head_dim, d_v=c.head_dim,
        d_ff=c.intermediate_size, n_layers=c.num_hidden_layers, source_vocab=1, target_vocab=c.vocab_size,
        norm="pre", norm_kind="rms", eps=c.rms_norm_eps, positions="rope", activation="swiglu", biases=(), scaled=False, pairing="half",
    )  # fmt: skip


ROOMS = {
    "norm_1.gamma": "input_layernorm", "norm_2.gamma": "post_attention_layernorm",
    **{f"attention.w_{x}": f"self_attn.{x}_proj" for x in "qkvo"},
    "feed_forward.w_1": "mlp.gate_proj", "feed_forward.w_3": "mlp.up_proj", "feed_forward.w_2": "mlp.down_proj",
}  # fmt: skip


def _ours(theirs, n_layers):
    """Ours from theirs, of parameters or of gradients: other names, and their matrices are (out, in)."""
    theirs = {name: value.numpy() for name, value in theirs.items()}
    found = {"embedding": theirs["model.embed_tokens.weight"], "norm.gamma": theirs["model.norm.weight"], "output.w": theirs["lm_head.weight"].T}
    return found | {f"block.{i}.{ours}": theirs[f"model.layers.{i}.{name}.weight"].T for i in range(n_layers) for ours, name in ROOMS.items()}


@pytest.mark.parametrize(("n_heads", "n_kv_heads"), [(2, 2), (4, 2), (4, 1)])
def test_logits_loss_and_gradients(n_heads, n_kv_heads):
    model = _theirs(n_heads, n_kv_heads, seed=n_heads + n_kv_heads)
    params, config = _ours({name: p.detach() for name, p in model.named_parameters()}, 2), _config(model)
    tokens = np.random.default_rng(0).integers(0, 13, (3, 9))
    right = model(torch.tensor(tokens), labels=torch.tensor(tokens))
    out = decoder.forward(params, config, tokens)
    assert out.logits.dtype == np.float32 and agreement(out.logits, right.logits) < BOUND
    # their labels are shifted inside; ours by hand
    value, dlogits = cross_entropy(out.logits[:, :-1], tokens[:, 1:])
    assert value == pytest.approx(right.loss.item(), rel=BOUND)
    right.loss.backward()
    grads = decoder.backward(np.pad(dlogits, ((0, 0), (0, 1), (0, 0))), out.cache)
    assert agreement(grads, _ours({name: p.grad for name, p in model.named_parameters()}, 2)) < 10 * BOUND


def test_decoding_with_their_cache_and_with_ours():
    model = _theirs(4, 2, seed=5)
    params, config = _ours({name: p.detach() for name, p in model.named_parameters()}, 2), _config(model)
    prompt = np.random.default_rng(1).integers(0, 13, (2, 4))
    theirs = model.generate(torch.tensor(prompt), attention_mask=torch.ones(2, 4), max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0)
    ours = np.stack(list(decoder.generate(params, config, prompt, 12)), axis=1)
    assert (theirs[:, 4:].numpy() == ours).all()


def test_the_sampling_filters():
    from transformers.generation.logits_process import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    from byhand.numpy.sampling import probabilities

    logits = 2 * np.random.default_rng(2).normal(size=(20, 13))
    for temperature, top_k, top_p in ((0.7, 5, 0.9), (1.5, 3, 0.5), (1.0, 13, 0.95), (2.0, 1, 0.3)):
        z = torch.tensor(logits)
        for filtered in (TemperatureLogitsWarper(temperature), TopKLogitsWarper(top_k), TopPLogitsWarper(top_p)):
            z = filtered(None, z)
        assert agreement(probabilities(logits, temperature, top_k, top_p), z.softmax(-1)) < 1e-12
