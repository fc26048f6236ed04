"""Document 2, section 8: the training loop and its failure modes."""

import math

import numpy as np

from byhand import Config
from byhand.numpy import attention, linear, loss, optimizer

from . import claim
from .samples import draw, largest, plain_softmax

# ---- the loop ----


ROWS = 8


def mean_gradient(rows):
    """∂L/∂w of a linear classifier, L the mean loss over these of the eight rows."""
    x, targets = draw(ROWS, 6)[rows], np.arange(ROWS)[rows] % 5
    logits, cache = linear.linear(x, draw(6, 5))
    _, dlogits = loss.cross_entropy(logits[:, None], targets[:, None])
    return linear.linear_backward(dlogits[:, 0], cache)[1]["w"]


def accumulated(sizes, weight):
    """The gradients of the microbatches of these sizes, each times weight(size), added up."""
    ends = np.cumsum(sizes)
    return sum(weight(size) * mean_gradient(slice(end - size, end)) for size, end in zip(sizes, ends, strict=True))


def first_adam_step(gradient):
    return optimizer.adam({"w": np.zeros((6, 5))}, {"w": gradient})[0]["w"]


@claim("d2-s8-accumulation")
def microbatches():
    full, equal, unequal = mean_gradient(slice(None)), (2, 2, 2, 2), (1, 2, 5)
    unscaled = accumulated(equal, lambda size: 1)
    return {
        "unscaled_sum_over_full": np.linalg.norm(unscaled) / np.linalg.norm(full),
        "scaled_by_1_over_k_residual_below_1e12": largest(accumulated(equal, lambda size: 1 / 4) - full) < 1e-12,
        "unequal_microbatches_plain_mean_is_wrong": largest(accumulated(unequal, lambda size: 1 / 3) - full) > 1e-3,
        "unequal_microbatches_count_weighted_residual_below_1e12": largest(accumulated(unequal, lambda size: size / ROWS) - full) < 1e-12,
        "adam_first_step_hides_missing_scale": largest(first_adam_step(unscaled) / first_adam_step(full) - 1) < 1e-3,
    }


# ---- symptoms ----


def diverging(theta=1.0, rate=10.0, steps=1000):
    """Gradient descent on θ² with a rate far too large: overshoots, overflows to infinity, and ends in ∞ − ∞."""
    for _ in range(steps):
        theta = theta - rate * (2 * theta)
    return theta


@claim("d2-s8-nan-causes")
def four_ways_to_nan():
    with np.errstate(all="ignore"):
        overflowed = np.exp(np.array([1000.0, 0.0]))
        found = {
            "all_masked_row": plain_softmax(np.full(3, -np.inf)),
            "zero_times_log_zero": 0 * np.log(0.0),
            "overflow_inf_over_inf": (overflowed / overflowed.sum())[0],
            "learning_rate_divergence": diverging(),
        }
    return {name: bool(np.isnan(value).all()) for name, value in found.items()}


@claim("d2-s8-early-layers")
def stack_of_sigmoids(layers=16):
    """Weight gradients of the first and of the last of many linear layers with a sigmoid behind each."""
    y, passes = draw(5, 8), []
    for i in range(layers):
        hidden, cache = linear.linear(y, draw(8, 8, seed=i) / math.sqrt(8))
        y = 1 / (1 + np.exp(-hidden))
        passes.append((cache, y))
    dy, sizes = draw(5, 8, seed=99), []
    for cache, y in reversed(passes):
        dy, grads = linear.linear_backward(dy * y * (1 - y), cache)
        sizes.append(np.linalg.norm(grads["w"]))
    return {"sigmoid_stack_first_over_last_gradient_below_1e-6": sizes[-1] / sizes[0] < 1e-6}


def scores_held(time):
    """How many scores one head keeps for its backward."""
    return attention.attention(*(draw(1, 1, time, 4, seed=i) for i in range(3)))[1].weights.size


@claim("d2-s8-memory")
def what_takes_memory():
    params = {"w": draw(6, 5), "b": draw(5)}
    _, state = optimizer.adam(params, params)
    held = sum(array.size for moments in (state.m, state.v) for array in moments.values())
    return {
        "adam_state_values_per_parameter": held / sum(array.size for array in params.values()),
        "score_matrix_ratio_for_doubled_length": scores_held(24) / scores_held(12),
    }


# ---- remedies that PyTorch has; what they act on is the package's or a plain array ----
def clipped(gradient):
    """A gradient after PyTorch's clipping to norm 1."""
    import torch

    parameter = torch.zeros(len(gradient), dtype=torch.float64, requires_grad=True)
    parameter.grad = torch.tensor(gradient, dtype=torch.float64)
    torch.nn.utils.clip_grad_norm_([parameter], 1.0)
    return parameter.grad.numpy()


@claim("d2-s8-clipping")
def clipping():
    tiny = np.array([3e-9, 4e-9])
    return {
        "large_norm_clipped_to": np.linalg.norm(clipped([3e5, 4e5])),
        "tiny_gradient_unchanged": bool((clipped(tiny) == tiny).all()),
        "zero_stays_zero": largest(clipped([0.0, 0.0])),
    }


@claim("d2-s8-precision")
def sixteen_bits():
    import torch

    total, tenth = np.float16(0), np.float16(0.1)
    for _ in range(10000):
        total = total + tenth
    return {
        "float16_sum_of_10000_x_0.1": float(total),
        "bytes_float32_bfloat16": [torch.zeros(1, dtype=kind).element_size() for kind in (torch.float32, torch.bfloat16)],
    }


@claim("d2-s8-checkpointing")
def checkpointing():
    """One block of the PyTorch floor with its activations kept, and computed again on the way back."""
    import torch
    from torch.utils.checkpoint import checkpoint

    from byhand.torch.decoder import PreNormBlock

    block = PreNormBlock(Config(d_model=8, n_heads=2, d_ff=16, n_layers=1, source_vocab=1, target_vocab=9, norm="pre"))
    with torch.no_grad():
        for i, parameter in enumerate(block.parameters()):
            parameter.copy_(torch.tensor(draw(*parameter.shape, seed=i)))
    calls = []
    block.register_forward_pre_hook(lambda module, inputs: calls.append(1))

    def run(through):
        calls.clear()
        block.zero_grad()
        x = torch.tensor(draw(1, 5, 8), dtype=torch.float32, requires_grad=True)
        through(x).square().sum().backward()
        return [x.grad.clone(), *(parameter.grad.clone() for parameter in block.parameters())], len(calls)

    plain, plain_calls = run(lambda x: block(x)[0])
    again, again_calls = run(lambda x: checkpoint(lambda x: block(x)[0], x, use_reentrant=False))
    return {
        "gradients_identical": all(map(torch.equal, plain, again)),
        "forward_calls_plain": plain_calls,
        "forward_calls_checkpointed": again_calls,
    }
