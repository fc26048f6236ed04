import numpy as np
import pytest
import torch

from byhand import Config, toy
from byhand.numpy import loss as np_loss
from byhand.numpy import transformer as np_transformer
from byhand.torch.loss import cross_entropy
from byhand.torch.transformer import Transformer

TOYS = ("document", "exact", "lively", "generic")


def module_of(case, dtype=np.float64):
    return Transformer(case.config).load_params({name: value.astype(dtype) for name, value in case.params.items()})


def batch_of(case):
    return case.source, case.decoder_input, case.source_lengths, case.target_lengths


def loss_of(case, logits):
    return cross_entropy(logits, case.targets, case.smoothing, lengths=case.target_lengths, reduction=case.reduction)


def numpy_step(case):
    out = np_transformer.forward(case.params, case.config, *batch_of(case))
    value, dlogits = np_loss.cross_entropy(out.logits, case.targets, case.smoothing, lengths=case.target_lengths, reduction=case.reduction)
    return out, value, np_transformer.gradients(dlogits, out.cache)


def assert_agrees(case, differ, plain):
    """Logits, loss and every parameter's gradient, NumPy by hand against PyTorch by autograd."""
    out, value, gradients = numpy_step(case)
    module = module_of(case)
    module.plain_attention = plain
    logits = module(*batch_of(case))
    loss = loss_of(case, logits)
    loss.backward()
    assert differ(logits, out.logits) < 1e-10
    assert differ(loss, value) < 1e-10
    grads = module.grads()
    assert list(grads) == list(gradients.params) == list(module.state_dict())
    for name, grad in grads.items():
        assert differ(grad, gradients.params[name]) < 1e-10, name


def assert_stages_agree(case, differ):
    """Every activation, and the gradient of every stage that both floors name."""
    out, _, gradients = numpy_step(case)
    activations = {}
    logits = module_of(case)(*batch_of(case), activations=activations)
    assert set(activations) == set(out.activations)
    for name, tensor in activations.items():
        assert differ(tensor, out.activations[name]) < 1e-10, name
    common = [name for name in activations if name in gradients.stages]
    assert len(common) >= 35
    found = torch.autograd.grad(loss_of(case, logits), [activations[name] for name in common])
    for name, gradient in zip(common, found, strict=True):
        assert differ(gradient, gradients.stages[name]) < 1e-10, name


@pytest.mark.parametrize("plain", [False, True], ids=["sdpa", "plain"])
def test_numpy_and_torch_agree_on_random_configurations(case, differ, plain):
    assert_agrees(case, differ, plain)


def test_every_stage_agrees_on_random_configurations(case, differ):
    assert_stages_agree(case, differ)


@pytest.mark.parametrize("plain", [False, True], ids=["sdpa", "plain"])
@pytest.mark.parametrize("name", TOYS)
def test_numpy_and_torch_agree_on_the_toys(name, differ, plain):
    assert_agrees(getattr(toy, name)(), differ, plain)


@pytest.mark.parametrize("name", TOYS)
def test_every_stage_agrees_on_the_toys(name, differ):
    assert_stages_agree(getattr(toy, name)(), differ)


def test_the_random_configurations_cover_what_they_should(make_case):
    cases = [make_case(seed) for seed in range(24)]
    assert {case.config.n_layers for case in cases} == {1, 2, 3}
    assert {case.config.tied for case in cases} == {True, False}
    assert {case.config.positions for case in cases} == {"sinusoidal", "none", "learned"} and len({case.config.biases for case in cases}) == 5
    assert {(case.config.pairing, case.config.scaled) for case in cases} == {(p, s) for p in ("interleaved", "half") for s in (True, False)}
    assert {(case.config.shared, case.config.tied) for case in cases} == {(s, t) for s in (True, False) for t in (True, False)}
    assert {case.reduction for case in cases} == {"mean", "sum", "last"}
    assert sum(case.config.d_k * case.config.n_heads != case.config.d_model for case in cases) > 10
    assert sum(case.config.d_k != case.config.d_v for case in cases) > 10
    assert all(case.source.shape[1] != case.decoder_input.shape[1] for case in cases)
    padded = [case for case in cases if case.source_lengths is not None]
    assert sum((case.source_lengths < case.source.shape[1]).any() for case in padded) > 8
    assert sum((case.target_lengths < case.decoder_input.shape[1]).any() for case in padded) > 5


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_float32_stays_near_float64(make_case, differ, seed):
    case = make_case(seed)
    _, value, gradients = numpy_step(case)
    module = module_of(case, np.float32)
    logits = module(*batch_of(case))
    loss = loss_of(case, logits)
    loss.backward()
    assert logits.dtype == torch.float32 and {grad.dtype for grad in module.grads().values()} == {np.dtype("float32")}
    assert differ(loss, value) < 1e-5
    for name, grad in module.grads().items():
        assert differ(grad, gradients.params[name]) < 1e-3, name


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_gpu(make_case, differ, gpu, seed):
    case = make_case(seed)
    _, value, gradients = numpy_step(case)
    dtype, bound = (np.float64, 1e-10) if gpu.type == "cuda" else (np.float32, 1e-3)
    module = module_of(case, dtype).to(gpu)
    for plain in (False, True):
        module.plain_attention = plain
        module.zero_grad()
        loss = loss_of(case, module(*batch_of(case)))
        loss.backward()
        assert loss.device.type == gpu.type
        assert differ(loss, value) < bound
        for name, grad in module.grads().items():
            assert differ(grad, gradients.params[name]) < bound, name


def test_bfloat16_runs():
    config = Config(d_model=8, n_heads=2, d_ff=8, n_layers=1, source_vocab=5, target_vocab=5)
    module = Transformer(config).to(torch.bfloat16)
    loss = cross_entropy(module([[1, 2, 3]], [[1, 2]], [2]), [[2, 3]], 0.1)
    loss.backward()
    assert torch.isfinite(loss) and module.grads()["output.w"].dtype == np.float32


def test_what_is_padded_does_not_matter(padded_case):
    case = padded_case
    module = module_of(case)
    real = np.arange(case.decoder_input.shape[1]) < case.target_lengths[:, None]
    changed_source = np.where(np.arange(case.source.shape[1]) < case.source_lengths[:, None], case.source, (case.source + 1) % case.config.source_vocab)
    changed_input = np.where(real, case.decoder_input, (case.decoder_input + 1) % case.config.target_vocab)
    results = []
    for source, decoder_input in ((case.source, case.decoder_input), (changed_source, changed_input)):
        module.zero_grad()
        logits = module(source, decoder_input, case.source_lengths, case.target_lengths)
        loss_of(case, logits).backward()
        results.append((logits.detach().numpy()[real], module.grads()))
    (logits, grads), (other_logits, other_grads) = results
    np.testing.assert_array_equal(logits, other_logits)
    for name in grads:
        np.testing.assert_allclose(grads[name], other_grads[name], rtol=0, atol=1e-14, err_msg=name)


def test_padding_is_as_if_it_were_not_there(padded_case, differ):
    case = padded_case
    module = module_of(case)
    logits = module(*batch_of(case))
    for b, (t_s, t_t) in enumerate(zip(case.source_lengths, case.target_lengths, strict=True)):
        alone = module(case.source[b : b + 1, :t_s], case.decoder_input[b : b + 1, :t_t])
        assert differ(logits[b : b + 1, :t_t], alone) < 1e-12


@pytest.mark.parametrize("plain", [False, True], ids=["sdpa", "plain"])
def test_no_position_sees_the_future(case, plain):
    module = module_of(case)
    module.plain_attention = plain
    with torch.no_grad():
        logits = module(*batch_of(case))
        for t in range(1, case.decoder_input.shape[1]):
            changed = case.decoder_input.copy()
            changed[:, t:] = (changed[:, t:] + 1) % case.config.target_vocab
            later = module(case.source, changed, case.source_lengths, case.target_lengths)
            torch.testing.assert_close(later[:, :t], logits[:, :t], rtol=0, atol=1e-14)
            assert not torch.equal(later[:, t], logits[:, t])


def test_the_source_reaches_every_position(make_case):
    case = make_case(0)
    module = module_of(case)
    changed = (case.source + 1) % case.config.source_vocab
    assert ((module(*batch_of(case)) - module(changed, *batch_of(case)[1:])).abs().amax(-1) > 1e-6).all()


def test_backward_twice_gives_the_same_and_the_batch_stays(make_case):
    case = make_case(1)
    batch = [np.copy(x) for x in batch_of(case)]
    module = module_of(case)
    loss = loss_of(case, module(*batch_of(case)))
    loss.backward(retain_graph=True)
    first = module.grads()
    module.zero_grad()
    loss.backward()
    second = module.grads()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    for mine, original in zip(batch_of(case), batch, strict=True):
        np.testing.assert_array_equal(mine, original)


def test_it_starts_where_numpy_starts():
    config = Config(d_model=8, n_heads=2, d_ff=6, n_layers=2, source_vocab=5, target_vocab=7, tied=True)
    start = np_transformer.init(config, seed=3, dtype=np.float32)
    for name, value in Transformer(config, seed=3).params().items():
        np.testing.assert_array_equal(value, start[name])


def test_recording_changes_nothing_and_shows_the_graphs_own_tensors(make_case):
    case = make_case(4)
    module, activations = module_of(case), {}
    logits = module(*batch_of(case), activations=activations)
    torch.testing.assert_close(logits, module(*batch_of(case)), rtol=1e-12, atol=1e-12)
    assert logits is activations["logits"]
    weights = activations["decoder.0.cross_attention.weights"]
    weights.retain_grad()
    loss_of(case, logits).backward()
    assert weights.grad.shape == weights.shape


def good():
    config = Config(d_model=4, n_heads=2, d_ff=4, n_layers=1, source_vocab=5, target_vocab=6, max_length=4)
    return Transformer(config), np.array([[1, 2, 3], [3, 2, 1]]), np.array([[1, 5], [0, 2]])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (dict(source=np.array([[1, 5, 3], [1, 1, 1]])), IndexError, "source held token 5"),
        (dict(source=np.array([[1, -1, 3], [1, 1, 1]])), IndexError, "source held token -1"),
        (dict(decoder_input=np.array([[1, 6], [1, 1]])), IndexError, "decoder_input held token 6"),
        (dict(source=np.array([[1.0, 2.0], [1, 1]])), ValueError, "source had dtype torch.float64"),
        (dict(source=torch.tensor([[True, False], [True, True]])), ValueError, "source had dtype torch.bool"),
        (dict(source=np.zeros((2, 0), int)), ValueError, r"source had shape \(2, 0\)"),
        (dict(source=np.zeros((0, 2), int)), ValueError, r"source had shape \(0, 2\)"),
        (dict(source=np.zeros(2, int)), ValueError, r"source had shape \(2,\)"),
        (dict(source=np.zeros((2, 5), int)), ValueError, "source had 5 positions; max_length allows 4"),
        (dict(source=np.zeros((3, 2), int)), ValueError, "decoder_input had 2 sequences and source 3"),
        (dict(source_lengths=[0, 3]), ValueError, "source_lengths held 0; each must be from 1 to 3"),
        (dict(source_lengths=[1, 4]), ValueError, "source_lengths held 4"),
        (dict(source_lengths=[1]), ValueError, r"source_lengths had shape \(1,\)"),
        (dict(source_lengths=[1.0, 2.0]), ValueError, "source_lengths had dtype"),
        (dict(target_lengths=[3, 1]), ValueError, "target_lengths held 3; each must be from 1 to 2"),
    ],
)
def test_bad_input_is_named(change, error, message):
    module, source, decoder_input = good()
    with pytest.raises(error, match=message):
        module(**(dict(source=source, decoder_input=decoder_input) | change))


@pytest.mark.parametrize("change", [dict(norm="pre"), dict(norm_kind="rms"), dict(activation="gelu"), dict(positions="rope"), dict(n_kv_heads=1)])
def test_what_the_model_of_2017_does_not_have_is_refused(change):
    config = Config(**(dict(d_model=4, n_heads=2, d_ff=4, n_layers=1, source_vocab=5, target_vocab=6) | change))
    with pytest.raises(ValueError, match=f"config.{next(iter(change))} was"):
        Transformer(config)


def test_a_constant_row_without_eps_is_an_error():
    config = Config(d_model=4, n_heads=2, d_ff=4, n_layers=1, source_vocab=2, target_vocab=2, eps=0, positions="none")
    module = Transformer(config)
    params = module.params()
    params["source_embedding"][:] = 0.0
    with pytest.raises(ValueError, match="constant row and eps was 0"):
        module.load_params(params)([[0, 1]], [[0]])
