import subprocess
import sys

import numpy as np
import pytest
import torch

from byhand import Config
from byhand.numpy import transformer as np_transformer
from byhand.torch.transformer import Transformer

CONFIG = Config(d_model=4, n_heads=2, d_ff=4, n_layers=1, source_vocab=5, target_vocab=6)


@pytest.mark.parametrize("tied", [False, True])
def test_the_state_dict_has_the_names_of_the_params(tied):
    config = Config(d_model=4, n_heads=2, d_ff=4, n_layers=2, source_vocab=5, target_vocab=6, tied=tied)
    params = np_transformer.init(config, seed=0)
    state = Transformer(config).state_dict()
    assert list(state) == list(params)
    assert {name: tuple(value.shape) for name, value in state.items()} == {name: value.shape for name, value in params.items()}
    assert ("output.w" in state) is not tied


def test_weights_move_both_ways_without_a_loss():
    params = np_transformer.init(CONFIG, seed=5)
    back = Transformer(CONFIG).load_params(params).params()
    for name in params:
        assert back[name].dtype == np.float64
        np.testing.assert_array_equal(back[name], params[name])


def test_training_the_module_leaves_the_callers_arrays_alone():
    params = np_transformer.init(CONFIG, seed=5)
    module = Transformer(CONFIG).load_params(params)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 1.0
    for name, value in np_transformer.init(CONFIG, seed=5).items():
        np.testing.assert_array_equal(params[name], value)


def test_params_and_grads_are_copies():
    module = Transformer(CONFIG)
    module([[1]], [[1]]).sum().backward()
    module.params()["output.b"][:] = 9.0
    module.grads()["output.b"][:] = 9.0
    assert (module.params()["output.b"] == 0).all() and (module.grads()["output.b"] == 1).all()


def test_a_parameter_without_a_gradient_gets_zeros():
    module = Transformer(CONFIG)
    assert all((grad == 0).all() and grad.shape == module.params()[name].shape for name, grad in module.grads().items())


def test_loading_keeps_an_optimizers_hold_and_forgets_old_gradients():
    module = Transformer(CONFIG)
    held = module.output.w
    module([[1]], [[1]]).sum().backward()
    module.load_params(np_transformer.init(CONFIG, seed=1))
    assert module.output.w is held and held.grad is None and held.dtype == torch.float64


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_values_keep_their_type_and_the_widest_counts(name):
    params = {key: value.astype(name) for key, value in np_transformer.init(CONFIG, seed=5).items()}
    back = Transformer(CONFIG).load_params(params).params()
    assert all(back[key].dtype == np.dtype(name) and (back[key] == value).all() for key, value in params.items())
    mixed = Transformer(CONFIG).load_params(params | {"output.b": params["output.b"].astype(np.float64)})
    assert {parameter.dtype for parameter in mixed.parameters()} == {torch.float64}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.update({"encoder.0.self_attention.b_k": np.zeros(4)}), "'encoder.0.self_attention.b_k' is unknown"),
        (lambda p: p.pop("decoder.0.norm_2.beta"), "'decoder.0.norm_2.beta' is missing"),
        (lambda p: p.update({"output.w": np.zeros((6, 4))}), r"'output.w' had shape \(6, 4\); it must be \(4, 6\)"),
        (lambda p: p.update({"output.b": np.full(6, np.nan)}), "'output.b' holds a value that is not finite"),
        (lambda p: p.update({"output.b": np.zeros(6, int)}), "'output.b' had dtype int64"),
    ],
)
def test_bad_params_are_named_and_nothing_is_loaded(change, message):
    module = Transformer(CONFIG)
    before = module.params()
    params = np_transformer.init(CONFIG, seed=2)
    change(params)
    with pytest.raises(ValueError, match=message):
        module.load_params(params)
    for name, value in module.params().items():
        np.testing.assert_array_equal(value, before[name])


def test_plain_attention_switches_every_layer():
    module = Transformer(CONFIG)
    assert not module.plain_attention
    module.plain_attention = True
    assert module.plain_attention and module.decoder[0].cross_attention.plain


SHARDED = """
import sys

import numpy as np, torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from byhand import toy
from byhand.torch.loss import cross_entropy
from byhand.torch.transformer import Transformer

dist.init_process_group("gloo", init_method=sys.argv[1], rank=int(sys.argv[2]), world_size=2)
case = toy.generic()
whole, model = (Transformer(case.config).load_params(case.params) for _ in range(2))
for layer in (*model.encoder, *model.decoder):
    fully_shard(layer)
fully_shard(model)

def same(a, b):
    assert a.keys() == b.keys() and all(a[n].shape == b[n].shape and np.allclose(a[n], b[n], rtol=1e-12, atol=1e-15) for n in a)

def step(module):
    logits = module(case.source, case.decoder_input)
    between = module.params()
    cross_entropy(logits, torch.as_tensor(case.targets)).backward()
    return between

same(model.params(), case.params)
same(model.grads(), whole.grads())  # zeros
same(step(model), step(whole))
same(model.grads(), whole.grads())
assert any(g.any() for g in model.grads().values())
doubled = {n: 2 * v for n, v in case.params.items()}
model(case.source, case.decoder_input)  # between forward and backward the parameters are whole
model.load_params(doubled), whole.load_params(doubled)
same(model.params(), doubled)
same(step(model), step(whole))
same(model.grads(), whole.grads())
singles = {n: v.astype(np.float32) for n, v in doubled.items()}
for wrong, words in ((singles, "sharded in torch.float64"), (doubled | {"output.b": np.ones(3)}, "had shape (3,)")):
    try:
        model.load_params(wrong)
    except ValueError as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
dist.destroy_process_group()
print("same")
"""


def test_under_fsdp2_the_arrays_are_whole_on_every_rank(tmp_path):
    program = tmp_path / "sharded.py"
    program.write_text(SHARDED)
    command = [sys.executable, str(program), (tmp_path / "meet").as_uri()]
    ranks = [subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in (0, 1)]
    for rank in ranks:
        said, _ = rank.communicate(timeout=600)
        assert rank.returncode == 0 and said.endswith("same\n"), said
