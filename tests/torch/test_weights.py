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
