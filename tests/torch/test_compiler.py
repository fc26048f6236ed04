"""The models where nobody may look at a number: on the meta device, under a compiler, in an export, and in half precision by autocast."""

import inspect

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from byhand import Config
from byhand.torch.decoder import Decoder
from byhand.torch.loss import cross_entropy
from byhand.torch.transformer import Transformer

SIZES = dict(d_model=8, n_heads=2, d_ff=12, n_layers=2, source_vocab=7, target_vocab=9)
ROPE = dict(norm="pre", norm_kind="rms", positions="rope", activation="swiglu", n_kv_heads=1)


def model_and_inputs(name, device="cpu"):
    rng = np.random.default_rng(3)
    source, target = (torch.tensor(rng.integers(0, high, (2, time)), device=device) for high, time in ((7, 4), (9, 3)))
    lengths = torch.tensor([3, 2], device=device)
    if name == "transformer":
        return (
            Transformer(Config(**SIZES), seed=1).to(device),
            dict(source=source, decoder_input=target, source_lengths=lengths + 1, target_lengths=lengths),
            target,
            lengths,
        )
    model = Decoder(Config(**SIZES, **(ROPE if name == "rope" else {"tied": True})), seed=1).to(device)
    return model, dict(tokens=target, lengths=lengths), target, lengths


NAMES = pytest.mark.parametrize("name", ["transformer", "decoder", "rope"])
LOSS = pytest.mark.parametrize("how", [{}, {"ignore_index": 4}, {"reduction": "last"}], ids=str)


# aminmax stands for the tolist() behind it, which on the CPU is no operation of its own.
WAITING = ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal", "aten::aminmax")


class NoCopies(TorchDispatchMode):
    """Fails at what a GPU would have to be waited for: a number read by Python, and a shape that depends on numbers."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.name()
        by_mask = name.startswith("aten::index") and any(i is not None and i.dtype == torch.bool for i in args[1] if isinstance(args[1], (list, tuple)))
        assert name not in WAITING and not by_mask, f"{name} waits for the device"
        return function(*args, **(kwargs or {}))


@NAMES
@LOSS
def test_nothing_waits_for_the_device_once_the_tokens_are_there(name, how):
    model, inputs, targets, lengths = model_and_inputs(name)
    right = cross_entropy(model(**inputs), targets, 0.1, lengths=lengths, **how)
    with NoCopies():
        loss = cross_entropy(model(**inputs, look=False), targets, 0.1, lengths=lengths, **how, look=False)
        loss.backward()
    assert torch.equal(loss, right) and all(parameter.grad is not None for parameter in model.parameters())
    with pytest.raises(AssertionError, match="waits for the device"), NoCopies():
        model(**inputs)


def test_a_kv_cache_is_read_on_without_waiting():
    model, inputs, targets, _ = model_and_inputs("rope")
    with NoCopies():
        logits, kv_cache = model.read(**inputs, look=False)
        onward, _ = model.read(targets[:, :1], kv_cache, look=False)
    assert torch.equal(onward, model.read(targets[:, :1], model.read(**inputs)[1])[0])


@NAMES
@LOSS
def test_on_the_meta_device_there_are_shapes_alone(name, how):
    model, inputs, targets, lengths = model_and_inputs(name, "meta")
    logits = model(**inputs)
    assert logits.device.type == "meta" and logits.shape == (2, 3, 9)
    assert cross_entropy(logits, targets, 0.1, lengths=lengths, **how).shape == ()


@NAMES
def test_compiled_in_one_graph(name):
    model, inputs, targets, lengths = model_and_inputs(name)

    def step(**inputs):
        return cross_entropy(model(**inputs), targets, 0.1, ignore_index=4, lengths=lengths)

    right = step(**inputs)
    right.backward()
    grads = {key: parameter.grad.clone() for key, parameter in model.named_parameters()}
    model.zero_grad()
    torch._dynamo.reset()
    loss = torch.compile(step, fullgraph=True, backend="aot_eager")(**inputs)
    loss.backward()
    assert torch.allclose(loss, right, rtol=1e-5)
    assert all(torch.allclose(parameter.grad, grads[key], atol=1e-6) for key, parameter in model.named_parameters())


@NAMES
def test_exported(name):
    model, inputs, _, _ = model_and_inputs(name)
    program = torch.export.export(model, (), inputs)
    assert torch.allclose(program.module()(**inputs), model(**inputs), atol=1e-6)


@NAMES
@LOSS
def test_autocast_in_bf16(name, how):
    model, inputs, targets, lengths = model_and_inputs(name)
    right = cross_entropy(model(**inputs), targets, 0.1, lengths=lengths, **how)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(**inputs)
        loss = cross_entropy(logits, targets, 0.1, lengths=lengths, **how)
    loss.backward()
    assert torch.allclose(loss, right, rtol=0.05) and not torch.allclose(logits, model(**inputs), rtol=1e-5)  # the products were rounded to bf16
    assert all(parameter.grad.dtype == torch.float32 and parameter.grad.isfinite().all() for parameter in model.parameters())


def test_the_rooms_take_what_autocast_mixes():
    from byhand.torch.linear import linear

    x, w = torch.ones(2, 3, dtype=torch.bfloat16), torch.ones(3, 2)
    with pytest.raises(ValueError, match="w had dtype torch.float32 and x torch.bfloat16"):
        linear(x, w)
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x, w).dtype == torch.bfloat16


def test_one_call_one_device_and_one_dtype():
    from byhand.torch.norm import layer_norm

    good = dict(x=torch.ones(2, 3), gamma=torch.ones(3), beta=torch.ones(3))
    for name, other in (("gamma", "x"), ("beta", "x"), ("x", "gamma")):
        found, first = sorted((name, other), key=list(good).index)[::-1]
        for changed, was, wanted in ((good[name].to("meta"), "was on", "device"), (good[name].double(), "had dtype", "dtype")):
            call = good | {name: changed}
            with pytest.raises(
                ValueError, match=f"{found} {was} {getattr(call[found], wanted)} and {first}.* {getattr(call[first], wanted)}.* one call must share one"
            ):
                layer_norm(**call)


def test_a_cache_of_another_model():
    one, inputs, targets, _ = model_and_inputs("rope")
    other = Decoder(one.config, seed=2)
    kv_cache = one.read(**inputs)[1]
    with pytest.raises(ValueError, match="kv_cache was made by another model"):
        other.read(targets, kv_cache)
    with pytest.raises(ValueError, match="kv_cache was tuple; it must be None or the KVCache"):
        one.read(targets, tuple(kv_cache))


def test_a_room_shows_its_rules_name_words_and_arguments():
    from byhand.torch import linear

    for room in (linear.linear, linear.weight):
        assert room is not room.rule and inspect.signature(room) == inspect.signature(room.rule)
        assert (room.__name__, room.__module__, room.__doc__) == (room.rule.__name__, "byhand.torch.linear", room.rule.__doc__)
