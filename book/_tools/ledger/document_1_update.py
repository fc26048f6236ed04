"""Document 1, the update, the invariants that remain, and where the step leaves us."""

import functools
import math

import numpy as np

from byhand import toy
from byhand.numpy import loss, norm, optimizer

from . import claim, claims, extra, named
from .samples import draw, largest, plain_attention, value

BETA_1, BETA_2, EPS = 0.9, 0.98, 1e-9
SHOWN = float(claims.lookup("d1-adam-w4000")["printed"])  # where the document says the weight is by step 4000


def lr(step, d_model=512):
    return optimizer.noam(step, d_model, warmup=4000)


# ---- the schedule ----
@claim("d1-adam-lr-formula")
def schedule_formula():
    steps = (1, 17, 3999, 4000, 4001, 100000)
    return max(abs(lr(t, d) - d**-0.5 * min(t**-0.5, t * 4000**-1.5)) for t in steps for d in (4, 512))


@extra("d1-adam-lr-formula")
def peak():
    return {"argmax_step": max(range(1, 10001), key=lr)}


# ---- one step of W_out[0,0] ----
@named
def adam_step(g=None, rate=None):
    """The weight after one step from 1, and Adam's moments."""
    g = value("gradient.output.w")[0, 0] if g is None else g
    rate = lr(1) if rate is None else rate
    params, state = optimizer.adam({"w": np.array([1.0])}, {"w": np.array([g])}, lr=rate, betas=(BETA_1, BETA_2), eps=EPS)
    return {"w": params["w"][0], "m": state.m["w"][0], "v": state.v["w"][0]}


@named
def as_bfloat16(x):
    """A float32 rounded to the upper 16 of its bits, halves to even."""
    bits = int(np.float32(x).view(np.uint32))
    bits += 0x7FFF + (bits >> 16 & 1)
    return float(np.uint32(bits & 0xFFFF0000).view(np.float32))


# ---- step 4000 ----


@named
def first_direction_at(step):
    """Adam's direction where the first gradient that is not 0 comes at this step."""
    zero = {"w": np.zeros(1)}
    state = optimizer.AdamState(t=step - 1, m=zero, v=zero)
    params, _ = optimizer.adam({"w": np.zeros(1)}, {"w": np.array([0.5])}, state, lr=1.0, betas=(BETA_1, BETA_2), eps=0.0)
    return -params["w"][0]


@functools.cache
def training_of_the_output_layer_alone(steps=4000):
    """W_out[0,0] after each step on the one example, with everything below it left as it is; and when `am` overtakes."""
    case, h = toy.document(), value("decoder.out")
    params, state, weights, overtaken = {"w": value("output.w")}, None, [1.0], None
    for step in range(1, steps + 1):
        _, dlogits = loss.cross_entropy(h @ params["w"], case.targets, case.smoothing, reduction="last")
        params, state = optimizer.adam(params, {"w": h[0].T @ dlogits[0]}, state, lr=lr(step), betas=(BETA_1, BETA_2), eps=EPS)
        weights.append(params["w"][0, 0])
        z = (h @ params["w"])[0, 1]
        if overtaken is None and z[2] > z[0]:
            overtaken = step
    return weights, overtaken


@named
def if_the_direction_stays_1():
    """W_out[0,0] after each step, when every step has Adam's first direction."""
    return 1 - np.cumsum([0.0, *(lr(step) for step in range(1, 4001))])


@named
def how_far_the_weight_moves():
    weights, _ = training_of_the_output_layer_alone()
    straight = if_the_direction_stays_1()
    return {
        "sum_of_lr_1_to_4000": 1 - straight[-1],
        "weight_if_direction_stays_1": straight[-1],
        "weight_if_this_example_is_repeated": weights[-1],
        "first_step_at_or_below_0_999301": next(step for step, w in enumerate(weights) if w <= SHOWN),
    }


@claim("d1-end-better-weights")
def one_step_on_the_output_layer():
    case, h, w = toy.document(), value("decoder.out"), value("output.w")
    grads = {"w": value("gradient.output.w")}
    after = optimizer.adam({"w": w}, grads, lr=lr(1), betas=(BETA_1, BETA_2), eps=EPS)[0]["w"]

    def drop(target):
        targets = np.array([[case.targets[0, 0], target]])
        before, then = (loss.cross_entropy(h @ weight, targets, case.smoothing, reduction="last")[0] for weight in (w, after))
        return before - then

    bos, am = 0, 2
    return {"same_example_loss_falls": drop(am) > 0, "another_target_loss_rises": drop(bos) < 0, "same_example_loss_drop": drop(am)}


# ---- invariants ----


@claim("d1-inv-layernorm")
def centred_with_variance_one():
    row = value("encoder.0.residual_1")[0, :1]
    out = value("encoder.0.norm_1.out")[0, 0]
    h = np.array(claims.lookup("d1-cross-h")["printed"], dtype=float)
    moved, _ = norm.layer_norm(row, np.full(4, 2.0), np.ones(4), eps=0.0)
    return {
        "ln1_mean": out.mean(),
        "ln1_variance": out.var(),
        "printed_h_mean": h.mean(),
        "printed_h_variance": h.var(),
        "gamma2_beta1_mean": moved.mean(),
        "gamma2_beta1_variance": moved.var(),
    }


@claim("d1-inv-production")
def fused_and_plain():
    import torch  # PyTorch's fused attention, against the definition written out

    arrays = draw(1, 2, 5, 4), draw(1, 2, 5, 4, seed=1), draw(1, 2, 5, 4, seed=2)
    fused, plain = ([torch.tensor(a, requires_grad=True) for a in arrays] for _ in range(2))
    y = torch.nn.functional.scaled_dot_product_attention(*fused)
    q, k, v = plain
    z = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(4), -1) @ v
    upstream = torch.tensor(draw(1, 2, 5, 4, seed=3))
    for out in (y, z):
        (out * upstream).sum().backward()
    apart = [a.grad.numpy() - b.grad.numpy() for a, b in zip(fused, plain, strict=True)]
    return {
        "fused_vs_plain_forward_below_1e12": largest(y.detach().numpy() - plain_attention(*arrays)) < 1e-12,
        "fused_vs_plain_gradient_below_1e12": largest(*apart) < 1e-12,
        "bfloat16_absorbs_peak_lr_update": as_bfloat16(1 - lr(4000)) == 1,
    }
