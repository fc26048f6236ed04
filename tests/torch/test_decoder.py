import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mixtures import BIASES

from byhand import Config
from byhand.numpy import decoder as np_decoder
from byhand.numpy import loss as np_loss
from byhand.parameters import decoder_shapes, draw
from byhand.torch.decoder import Decoder
from byhand.torch.loss import cross_entropy

SEEDS = range(24)


def decoder_case(seed):
    """Every choice of document 2's stack in turn, with γ ≠ 1, no zero bias, and padding in three of four."""
    pick = random.Random(seed)
    heads, kv_heads = pick.choice([(2, 1), (2, 2), (4, 2), (3, 1)])
    config = Config(
        d_model=pick.choice([4, 6]),
        n_heads=heads,
        n_kv_heads=kv_heads,
        d_k=pick.choice([2, 4]),
        d_v=pick.choice([3, 5]),
        d_ff=pick.choice([5, 7]),
        n_layers=1 + seed % 3,
        source_vocab=1,
        target_vocab=pick.choice([4, 9]),
        norm=("pre", "pre", "post")[seed // 2 % 3],
        norm_kind=("layer", "rms")[seed % 2],
        positions=("rope", "sinusoidal", "none", "learned")[seed // 3 % 4],
        activation=("relu", "gelu", "gelu_tanh", "swiglu")[seed % 4],
        tied=seed // 4 % 2 == 1,
        biases=BIASES[seed % 5],
        scaled=seed // 2 % 3 != 1,
        pairing=("interleaved", "half")[seed % 2],
        max_length=(None, 9)[seed // 3 % 4 == 3],
    )
    rng = np.random.default_rng(seed)
    params = {name: (2 * value if value.ndim == 2 else rng.normal(0.8, 0.5, value.shape)) for name, value in draw(decoder_shapes(config), seed).items()}
    batch, time = pick.choice([2, 3]), pick.choice([3, 5])
    tokens = rng.integers(0, config.target_vocab, (batch, time))
    tokens[:, -1] = tokens[:, 0]
    lengths = rng.integers(1, time + 1, batch) if seed % 4 != 3 else None
    return SimpleNamespace(config=config, params=params, tokens=tokens, targets=rng.integers(0, config.target_vocab, (batch, time)), lengths=lengths)


@pytest.fixture(params=SEEDS, ids=lambda seed: f"random-{seed}")
def case(request):
    return decoder_case(request.param)


def module_of(case, dtype=np.float64):
    return Decoder(case.config).load_params({name: value.astype(dtype) for name, value in case.params.items()})


def numpy_step(case):
    out = np_decoder.forward(case.params, case.config, case.tokens, lengths=case.lengths)
    value, dlogits = np_loss.cross_entropy(out.logits, case.targets, 0.1, lengths=case.lengths)
    return out, value, np_decoder.gradients(dlogits, out.cache)


def loss_of(case, logits):
    return cross_entropy(logits, case.targets, 0.1, lengths=case.lengths)


def test_the_configurations_cover_every_choice():
    configs = [decoder_case(seed).config for seed in SEEDS]
    for name in ("norm", "norm_kind", "positions", "activation", "tied", "n_layers", "biases", "scaled", "pairing"):
        assert len({getattr(config, name) for config in configs}) == {"activation": 4, "positions": 4, "n_layers": 3, "biases": 5}.get(name, 2)
    assert sum(config.n_kv_heads < config.n_heads for config in configs) > 8


@pytest.mark.parametrize("plain", [False, True], ids=["sdpa", "plain"])
def test_numpy_and_torch_agree(case, differ, plain):
    out, value, gradients = numpy_step(case)
    module = module_of(case)
    module.plain_attention = plain
    logits = module(case.tokens, lengths=case.lengths)
    loss = loss_of(case, logits)
    loss.backward()
    assert differ(logits, out.logits) < 1e-10
    assert differ(loss, value) < 1e-10
    grads = module.grads()
    assert list(grads) == list(gradients.params) == list(module.state_dict())
    for name, grad in grads.items():
        assert differ(grad, gradients.params[name]) < 1e-10, name


def test_every_stage_agrees(case, differ):
    out, _, gradients = numpy_step(case)
    activations = {}
    logits = module_of(case)(case.tokens, lengths=case.lengths, activations=activations)
    assert set(activations) == set(out.activations)
    for name, tensor in activations.items():
        assert differ(tensor, out.activations[name]) < 1e-10, name
    common = [name for name in activations if name in gradients.stages]
    assert len(common) >= 13 * case.config.n_layers
    found = torch.autograd.grad(loss_of(case, logits), [activations[name] for name in common])
    for name, gradient in zip(common, found, strict=True):
        assert differ(gradient, gradients.stages[name]) < 1e-10, name


@pytest.mark.parametrize("seed", [0, 5, 14])
def test_float32_stays_near_float64(differ, seed):
    case = decoder_case(seed)
    _, value, gradients = numpy_step(case)
    module = module_of(case, np.float32)
    loss = loss_of(case, module(case.tokens, lengths=case.lengths))
    loss.backward()
    assert loss.dtype == torch.float32 and differ(loss, value) < 1e-5
    for name, grad in module.grads().items():
        assert differ(grad, gradients.params[name]) < 1e-3, name


@pytest.mark.parametrize("seed", [0, 5, 14])
def test_gpu(differ, gpu, seed):
    case = decoder_case(seed)
    _, value, gradients = numpy_step(case)
    dtype, bound = (np.float64, 1e-10) if gpu.type == "cuda" else (np.float32, 1e-3)
    module = module_of(case, dtype).to(gpu)
    loss = loss_of(case, module(case.tokens, lengths=case.lengths))
    loss.backward()
    assert differ(loss, value) < bound
    for name, grad in module.grads().items():
        assert differ(grad, gradients.params[name]) < bound, name


def test_reading_on_gives_what_reading_at_once_gives(case, differ):
    """A padded prompt at once, then tokens one by one and two together: the logits of each whole sequence read alone."""
    module = module_of(case)
    prompt = case.tokens[:, :-1]
    lengths = None if case.lengths is None else np.minimum(case.lengths, prompt.shape[1])
    more = np.random.default_rng(3).integers(0, case.config.target_vocab, (len(prompt), 4))
    with torch.no_grad():
        _, kv_cache = module.read(prompt, lengths=lengths)
        found = []
        for part in (more[:, :1], more[:, 1:2], more[:, 2:]):
            before = [tensor.clone() for tensor in kv_cache.keys + kv_cache.values]
            logits, longer = module.read(part, kv_cache)
            assert all(map(torch.equal, before, kv_cache.keys + kv_cache.values))
            kv_cache = longer
            found.append(logits)
        found = torch.cat(found, dim=1)
        for b in range(len(prompt)):
            real = prompt[b, : None if lengths is None else lengths[b]]
            alone = module(np.concatenate([real, more[b]])[None])
            assert differ(found[b : b + 1], alone[:, -4:]) < 1e-10
    assert kv_cache.time == prompt.shape[1] + 4
    out = np_decoder.forward(case.params, case.config, prompt, lengths=lengths)
    for part in (more[:, :1], more[:, 1:]):
        out = np_decoder.forward(case.params, case.config, part, out.kv_cache)
    for mine, theirs in zip(kv_cache.keys + kv_cache.values, out.kv_cache.keys + out.kv_cache.values, strict=True):
        assert differ(mine, theirs) < 1e-10


def test_no_position_sees_the_future_or_the_padding(case):
    module = module_of(case)
    with torch.no_grad():
        logits = module(case.tokens, lengths=case.lengths)
        for t in range(1, case.tokens.shape[1]):
            changed = case.tokens.copy()
            changed[:, t:] = (changed[:, t:] + 1) % case.config.target_vocab
            torch.testing.assert_close(module(changed, lengths=case.lengths)[:, :t], logits[:, :t], rtol=0, atol=1e-13)
        if case.lengths is not None:
            real = np.arange(case.tokens.shape[1]) < case.lengths[:, None]
            changed = np.where(real, case.tokens, (case.tokens + 1) % case.config.target_vocab)
            torch.testing.assert_close(module(changed, lengths=case.lengths)[real], logits[real], rtol=0, atol=1e-13)


def test_it_starts_where_numpy_starts():
    config = decoder_case(3).config
    start = np_decoder.init(config, seed=3, dtype=np.float32)
    for name, value in Decoder(config, seed=3).params().items():
        np.testing.assert_array_equal(value, start[name])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(tokens=[[9, 0]]), IndexError, "tokens held token 9"),
        (dict(tokens=[[0.5, 1.0]]), ValueError, "tokens had dtype"),
        (dict(tokens=[[0] * 7]), ValueError, "tokens had 7 positions; max_length allows 6"),
        (dict(tokens=[[0, 1]], lengths=[3]), ValueError, "lengths held 3"),
    ],
)
def test_bad_input_is_named(arguments, error, message):
    module = Decoder(Config(4, 2, 4, 1, source_vocab=1, target_vocab=5, max_length=6))
    for call in (module, module.read):
        with pytest.raises(error, match=message):
            call(**arguments)


def test_a_kv_cache_that_does_not_fit_is_named():
    config = dict(d_model=4, n_heads=2, d_ff=4, source_vocab=1, target_vocab=5, max_length=6)
    module = Decoder(Config(n_layers=1, **config))
    _, kv_cache = module.read([[0, 1, 2, 3]])
    with pytest.raises(ValueError, match="3 positions after the 4 in kv_cache; max_length allows 6 together"):
        module([[0, 1, 2]], kv_cache)
    with pytest.raises(ValueError, match="kv_cache held keys of shape"):
        module([[0], [1]], kv_cache)
    with pytest.raises(ValueError, match="kv_cache had 1 layers; this model has 2"):
        Decoder(Config(n_layers=2, **config))([[0]], kv_cache)
