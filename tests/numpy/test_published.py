"""Published implementations loaded whole, tiny and with random weights: GPT-2, and Marian's encoder-decoder of 2017.

Nothing is downloaded. test_llama.py does the same with Llama.
"""

import re

import numpy as np
import pytest

from byhand import Config
from byhand.check import agreement
from byhand.numpy import decoder, position, transformer

transformers = pytest.importorskip("transformers", reason="transformers is not installed; make test installs it")
import torch  # noqa: E402 (the line above decides whether it is needed)

from byhand.torch.decoder import Decoder  # noqa: E402
from byhand.torch.transformer import Transformer  # noqa: E402

BOUNDS = {"float32": 1e-5, "float64": 1e-12}
EVERYWHERE = ("attention", "feed_forward", "output")


def drawn(model, dtype):
    """The model with random weights: γ ≠ 1, no bias 0."""
    _ = torch.manual_seed(0)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.requires_grad:
                value.normal_(1.0 if re.search(r"(norm|ln_)\w*\.weight", name) else 0.0, 0.2)
    return model.to(getattr(torch, dtype)).eval()


def parameters_and_gradients(model):
    own = {name: p for name, p in model.named_parameters() if p.requires_grad}
    return {name: p.detach().numpy() for name, p in own.items()}, {name: p.grad.numpy() for name, p in own.items()}


def assert_gradients_agree(mine, right, bound):
    """A key's bias adds one number to all scores of a query, so the gradient is 0: what is there is rounding, beside that of the values' bias."""
    still = [name for name in mine if name.endswith("b_k")]
    for grads in (mine, right):
        assert all(np.abs(grads[name]).max() < bound * np.abs(grads[name.replace("b_k", "b_v")]).max() for name in still)
    rest = [{name: grad for name, grad in grads.items() if name not in still} for grads in (mine, right)]
    assert still and agreement(*rest) < bound


def assert_torchs_floor_agrees(module, params, logits, grads, dlogits, *inputs):
    """By autograd, from the same arrays, the same logits and gradients."""
    module = module.load_params(params)
    again = module(*inputs)
    again.backward(torch.tensor(dlogits))
    assert agreement(again, logits) < BOUNDS[str(dlogits.dtype)]
    assert_gradients_agree(module.grads(), grads, BOUNDS[str(dlogits.dtype)])


# ---- GPT-2 --------------------------------------------------------------------------------------


def gpt2(theirs, n_layers):
    """Ours from theirs, of parameters or of gradients: another order and other names; queries, keys and values are one matrix."""
    names = {"embedding": "wte.weight", "positions": "wpe.weight", "norm.gamma": "ln_f.weight", "norm.beta": "ln_f.bias"}
    for i in range(n_layers):
        for ours, name in {"norm_1": "ln_1", "norm_2": "ln_2"}.items():
            names |= {f"block.{i}.{ours}.gamma": f"h.{i}.{name}.weight", f"block.{i}.{ours}.beta": f"h.{i}.{name}.bias"}
        for ours, name in {"attention.{}_o": "attn.c_proj", "feed_forward.{}_1": "mlp.c_fc", "feed_forward.{}_2": "mlp.c_proj"}.items():
            names |= {f"block.{i}.{ours.format(kind[0])}": f"h.{i}.{name}.{kind}" for kind in ("weight", "bias")}
    found = {ours: theirs[f"transformer.{name}"] for ours, name in names.items()}
    for i in range(n_layers):
        for kind in ("weight", "bias"):
            packed = np.split(theirs[f"transformer.h.{i}.attn.c_attn.{kind}"], 3, axis=-1)
            found |= {f"block.{i}.attention.{kind[0]}_{x}": part for x, part in zip("qkv", packed)}
    return found


@pytest.mark.parametrize("dtype", BOUNDS)
def test_gpt2(dtype):
    theirs = transformers.GPT2Config(
        vocab_size=13, n_positions=11, n_embd=12, n_layer=2, n_head=3, n_inner=20, layer_norm_epsilon=1e-4, attn_implementation="eager",
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = drawn(transformers.GPT2LMHeadModel(theirs), dtype)
    config = Config(
        d_model=12, n_heads=3, d_ff=20, n_layers=2, source_vocab=1, target_vocab=13, norm="pre", eps=1e-4, activation="gelu_tanh", tied=True,
        positions="learned", max_length=11, scaled=False, biases=("attention", "feed_forward"),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    tokens, lengths = rng.integers(0, 13, (3, 9)), np.array([9, 4, 7])
    tokens[:, -1] = tokens[:, 0]
    real = np.arange(9) < lengths[:, None]
    logits = model(torch.tensor(tokens), attention_mask=torch.tensor(real)).logits
    dlogits = (rng.normal(size=logits.shape) * real[..., None]).astype(dtype)
    logits.backward(torch.tensor(dlogits))

    arrays, right = parameters_and_gradients(model)
    params = gpt2(arrays, 2)
    out = decoder.forward(params, config, tokens, lengths=lengths)
    assert out.logits.dtype == dtype and agreement(out.logits[real], logits.detach().numpy()[real]) < BOUNDS[dtype]
    grads = decoder.backward(dlogits, out.cache)
    assert_gradients_agree(grads, gpt2(right, 2), BOUNDS[dtype])
    assert_torchs_floor_agrees(Decoder(config), params, out.logits, grads, dlogits, tokens, None, lengths)
    written = model.generate(torch.tensor(tokens[:, :4]), max_new_tokens=7, do_sample=False, eos_token_id=None, pad_token_id=0)
    assert (written[:, 4:].numpy() == np.stack(list(decoder.generate(params, config, tokens[:, :4], 7)), axis=1)).all()
    with pytest.raises(ValueError, match="tokens had time 12; together they must be at most max_length, 11"):
        list(decoder.generate(params, config, tokens, 3))


# ---- Marian -------------------------------------------------------------------------------------


def marian(theirs, n_layers):
    """Ours from theirs, of parameters or of gradients: their matrices are (out, in); one table serves source, target and output."""
    found = {"embedding": theirs["model.shared.weight"]}
    rooms = {"self_attention": "self_attn", "cross_attention": "encoder_attn", "norm_1": "self_attn_layer_norm", "norm_2": "encoder_attn_layer_norm"}
    for side in ("encoder", "decoder"):
        for i in range(n_layers):
            own = rooms if side == "decoder" else {"self_attention": "self_attn", "norm_1": "self_attn_layer_norm"}
            layer = f"model.{side}.layers.{i}"
            for ours, name in (own | {f"norm_{3 if side == 'decoder' else 2}": "final_layer_norm"}).items():
                pairs = {"gamma": "weight", "beta": "bias"}
                if "attention" in ours:
                    pairs = {f"{kind[0]}_{x}": f"{'out' if x == 'o' else x}_proj.{kind}" for x in "qkvo" for kind in ("weight", "bias")}
                found |= {f"{side}.{i}.{ours}.{key}": theirs[f"{layer}.{name}.{value}"].T for key, value in pairs.items()}
            found |= {f"{side}.{i}.feed_forward.{kind[0]}_{k}": theirs[f"{layer}.fc{k}.{kind}"].T for k in (1, 2) for kind in ("weight", "bias")}
    return found


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("dtype", BOUNDS)
def test_marian(dtype, scaled):
    theirs = transformers.MarianConfig(
        vocab_size=13, d_model=12, encoder_layers=2, decoder_layers=2, encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=20,
        decoder_ffn_dim=20, activation_function="relu", scale_embedding=scaled, max_position_embeddings=16, pad_token_id=12, eos_token_id=0,
        decoder_start_token_id=12, attn_implementation="eager",
    )  # fmt: skip
    model = drawn(transformers.MarianMTModel(theirs), dtype)
    waves = position.sinusoidal(16, 12, "half")
    for side in (model.model.encoder, model.model.decoder):  # in float64 theirs are still sines of float32
        assert agreement(side.embed_positions.weight.detach(), waves) < 1e-6
        side.embed_positions.weight.data = torch.tensor(waves.astype(dtype))
    config = Config(
        d_model=12, n_heads=3, d_ff=20, n_layers=2, source_vocab=13, target_vocab=13, eps=1e-5, shared=True, tied=True, scaled=scaled,
        pairing="half", biases=("attention", "feed_forward"),
    )  # fmt: skip
    rng = np.random.default_rng(1)
    source, target = rng.integers(0, 12, (3, 7)), rng.integers(0, 12, (3, 5))  # 12 is their padding, whose row gets no gradient
    source_lengths, target_lengths = np.array([7, 3, 5]), np.array([5, 4, 2])
    source[:, -1], target[:, -1] = source[:, 0], target[:, 0]
    real = {name: np.arange(tokens.shape[1]) < n[:, None] for name, tokens, n in (("s", source, source_lengths), ("t", target, target_lengths))}
    logits = model(
        torch.tensor(source), attention_mask=torch.tensor(real["s"]), decoder_input_ids=torch.tensor(target), decoder_attention_mask=torch.tensor(real["t"])
    ).logits
    dlogits = (rng.normal(size=logits.shape) * real["t"][..., None]).astype(dtype)
    logits.backward(torch.tensor(dlogits))

    arrays, right = parameters_and_gradients(model)
    params = marian(arrays, 2)
    out = transformer.forward(params, config, source, target, source_lengths, target_lengths)
    assert out.logits.dtype == dtype and agreement(out.logits[real["t"]], logits.detach().numpy()[real["t"]]) < BOUNDS[dtype]
    grads = transformer.backward(dlogits, out.cache)
    assert_gradients_agree(grads, marian(right, 2), BOUNDS[dtype])
    assert_torchs_floor_agrees(Transformer(config), params, out.logits, grads, dlogits, source, target, source_lengths, target_lengths)


# ---- PyTorch's own ------------------------------------------------------------------------------


def torchs(theirs, n_layers):
    """Ours from theirs: (out, in), and queries, keys and values packed as (3 d_model, d_model)."""
    found = {"source_embedding": theirs["source.weight"], "target_embedding": theirs["target.weight"]}
    for side, rooms in (("encoder", {"self_attention": "self_attn"}), ("decoder", {"self_attention": "self_attn", "cross_attention": "multihead_attn"})):
        for i in range(n_layers):
            ours, layer = f"{side}.{i}", f"transformer.{side}.layers.{i}"
            for room, name in rooms.items():
                for kind in ("weight", "bias"):
                    parts = np.split(theirs[f"{layer}.{name}.in_proj_{kind}"], 3)
                    found |= {f"{ours}.{room}.{kind[0]}_{x}": part.T for x, part in zip("qkv", parts)}
                    found[f"{ours}.{room}.{kind[0]}_o"] = theirs[f"{layer}.{name}.out_proj.{kind}"].T
            for k in range(1, len(rooms) + 2):
                found |= {f"{ours}.norm_{k}.{a}": theirs[f"{layer}.norm{k}.{b}"] for a, b in (("gamma", "weight"), ("beta", "bias"))}
            found |= {f"{ours}.feed_forward.{kind[0]}_{k}": theirs[f"{layer}.linear{k}.{kind}"].T for k in (1, 2) for kind in ("weight", "bias")}
    return found | {"output.w": theirs["output.weight"].T, "output.b": theirs["output.bias"]}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("dtype", BOUNDS)
def test_nn_transformer(dtype):
    model = torch.nn.Transformer(12, 3, 2, 2, 20, dropout=0.0, batch_first=True)
    model.encoder.norm = model.decoder.norm = None
    source, target, output = torch.nn.Embedding(9, 12), torch.nn.Embedding(13, 12), torch.nn.Linear(12, 13)
    whole = drawn(torch.nn.ModuleDict(dict(source=source, target=target, transformer=model, output=output)), dtype)
    config = Config(d_model=12, n_heads=3, d_ff=20, n_layers=2, source_vocab=9, target_vocab=13, positions="none", scaled=False, biases=EVERYWHERE)
    rng = np.random.default_rng(2)
    x, y, lengths = rng.integers(0, 9, (3, 7)), rng.integers(0, 13, (3, 5)), np.array([7, 3, 5])
    padding = torch.tensor(np.arange(7) >= lengths[:, None])
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
    masks = dict(tgt_mask=causal, src_key_padding_mask=padding, memory_key_padding_mask=padding)
    logits = output(model.train()(source(torch.tensor(x)), target(torch.tensor(y)), **masks))
    dlogits = rng.normal(size=logits.shape).astype(dtype)
    logits.backward(torch.tensor(dlogits))

    arrays, right = parameters_and_gradients(whole)
    out = transformer.forward(torchs(arrays, 2), config, x, y, lengths)
    assert out.logits.dtype == dtype and agreement(out.logits, logits) < BOUNDS[dtype]
    assert_gradients_agree(transformer.backward(dlogits, out.cache), torchs(right, 2), BOUNDS[dtype])
