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


def _ours(model):
    """The same model as a Config and a dict of arrays.

    Four things differ: their matrices are transposed; their embedding is not scaled, so ours is divided by √d_model; they
    pair coordinate i with i + d_k/2 where we pair neighbours, so the columns of w_q and w_k are put in our order; and
    they have no biases, so ours are 0.
    """
    c = model.config
    config = Config(
        d_model=c.hidden_size, n_heads=c.num_attention_heads, n_kv_heads=c.num_key_value_heads, d_k=c.head_dim, d_v=c.head_dim,
        d_ff=c.intermediate_size, n_layers=c.num_hidden_layers, source_vocab=1, target_vocab=c.vocab_size,
        norm="pre", norm_kind="rms", eps=c.rms_norm_eps, positions="rope", activation="swiglu",
    )  # fmt: skip
    theirs = {name: value.detach().numpy() for name, value in model.named_parameters()}
    neighbours = np.arange(c.head_dim).reshape(2, -1).T.ravel()  # 0, d/2, 1, d/2 + 1, …

    def rotated(w):
        return w.T.reshape(len(w.T), -1, c.head_dim)[..., neighbours].reshape(w.T.shape)

    params = {"embedding": theirs["model.embed_tokens.weight"] / np.float32(c.hidden_size**0.5)}
    for i in range(c.num_hidden_layers):
        layer, block = f"model.layers.{i}", f"block.{i}"
        params |= {
            f"{block}.norm_1.gamma": theirs[f"{layer}.input_layernorm.weight"],
            f"{block}.attention.w_q": rotated(theirs[f"{layer}.self_attn.q_proj.weight"]),
            f"{block}.attention.w_k": rotated(theirs[f"{layer}.self_attn.k_proj.weight"]),
            f"{block}.attention.w_v": theirs[f"{layer}.self_attn.v_proj.weight"].T,
            f"{block}.attention.w_o": theirs[f"{layer}.self_attn.o_proj.weight"].T,
            f"{block}.norm_2.gamma": theirs[f"{layer}.post_attention_layernorm.weight"],
            f"{block}.feed_forward.w_1": theirs[f"{layer}.mlp.gate_proj.weight"].T,
            f"{block}.feed_forward.w_3": theirs[f"{layer}.mlp.up_proj.weight"].T,
            f"{block}.feed_forward.w_2": theirs[f"{layer}.mlp.down_proj.weight"].T,
            f"{block}.feed_forward.b_1": np.zeros(c.intermediate_size, np.float32),
            f"{block}.feed_forward.b_2": np.zeros(c.hidden_size, np.float32),
        }
    params |= {"norm.gamma": theirs["model.norm.weight"], "output.w": theirs["lm_head.weight"].T}
    return params | {"output.b": np.zeros(c.vocab_size, np.float32)}, config


@pytest.mark.parametrize(("n_heads", "n_kv_heads"), [(2, 2), (4, 2), (4, 1)])
def test_logits_loss_and_gradients(n_heads, n_kv_heads):
    model = _theirs(n_heads, n_kv_heads, seed=n_heads + n_kv_heads)
    params, config = _ours(model)
    tokens = np.random.default_rng(0).integers(0, 13, (3, 9))
    right = model(torch.tensor(tokens), labels=torch.tensor(tokens))
    out = decoder.forward(params, config, tokens)
    assert out.logits.dtype == np.float32 and agreement(out.logits, right.logits) < BOUND
    # their labels are shifted inside; ours by hand
    value, dlogits = cross_entropy(out.logits[:, :-1], tokens[:, 1:])
    assert value == pytest.approx(right.loss.item(), rel=BOUND)
    right.loss.backward()
    grads = decoder.backward(np.pad(dlogits, ((0, 0), (0, 1), (0, 0))), out.cache)
    theirs = dict(model.named_parameters())
    for name, their_name in (("norm.gamma", "model.norm.weight"), ("block.0.norm_1.gamma", "model.layers.0.input_layernorm.weight")):
        assert agreement(grads[name], theirs[their_name].grad) < 10 * BOUND
    for name, their_name in (("attention.w_v", "self_attn.v_proj"), ("attention.w_o", "self_attn.o_proj"), ("feed_forward.w_3", "mlp.up_proj")):
        assert agreement(grads[f"block.0.{name}"], theirs[f"model.layers.0.{their_name}.weight"].grad.T) < 10 * BOUND


def test_decoding_with_their_cache_and_with_ours():
    model = _theirs(4, 2, seed=5)
    params, config = _ours(model)
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
