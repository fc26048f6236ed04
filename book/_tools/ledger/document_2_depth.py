"""Document 2, gradient flow through depth: the takeaway on residuals, experiment 2 and section 7."""

import functools

import numpy as np

from byhand import Config
from byhand.numpy import decoder, feed_forward, linear, loss, norm
from byhand.worked.experiments import DepthPlot

from . import claim, claims, extra, named
from .samples import by_complex_step, draw, largest, plain_feed_forward, plain_layer_norm


# ---- experiment 2 ----
@named
def gains(a=-0.1, layers=12, depth=None):
    """What the plot gives as the gain of the direct and of the residual chain."""
    return DepthPlot(a, layers).gains(depth)


named(DepthPlot().height)


@claim("d2-widget-setting")
def setting_behind_both_figures():
    """Every place of both sliders whose two gains are the printed ones."""
    prints = [claims.lookup(f"d2-widget-{name}")["printed"] for name in ("direct", "residual")]
    near = [[0.5 * float(text), 2 * float(text)] for text in prints]
    fits = []
    for a in range(-200, 201):
        plot = DepthPlot(a=a / 100)
        for depth in range(1, 201):
            both = plot.gains(depth)
            if all(low < gain < high for gain, (low, high) in zip(both, near, strict=True)) and all(map(claims.rounds_half_up, both, prints)):
                fits.append((plot.a, depth))
    return {"a": fits[0][0], "L": fits[0][1], "solutions_on_grid": len(fits)}


# ---- Jacobians ----
LAYERS = 4


def layer_weights(i):
    return tuple(draw(*shape, seed=i) / 2 for shape in ((3, 8), (8,), (8, 3), (3,)))


@functools.cache
def chain():
    """Four feed-forward networks in a row: each one's Jacobian by complex step, and the package's gradient before each and at the end."""
    h, jacobians, caches = draw(1, 3), [], []
    for i in range(LAYERS):
        jacobians.append(jacobian(lambda x, i=i: plain_feed_forward(x, *layer_weights(i)), h))
        h, cache = feed_forward.feed_forward(h, *layer_weights(i))
        caches.append(cache)
    gradients = [draw(1, 3, seed=9)]
    for cache in reversed(caches):
        gradients.append(feed_forward.feed_forward_backward(gradients[-1], cache)[0])
    return jacobians, [g[0] for g in reversed(gradients)]


def jacobian(f, x):
    """∂f/∂x of one row, row i the slopes of output i, by complex step."""
    return np.array([by_complex_step(lambda x, i=i: f(x)[0, i], x)[0] for i in range(x.shape[1])])


@claim("d2-s7-recursion")
def one_layer_back():
    jacobians, g = chain()
    return largest(*(jacobians[l].T @ g[l + 1] - g[l] for l in range(LAYERS)))


@claim("d2-s7-product")
def all_layers_back():
    jacobians, g = chain()
    return largest(np.linalg.multi_dot([j.T for j in jacobians] + [g[-1]]) - g[0])


@extra("d2-s7-product")
def layers_in_the_wrong_order():
    jacobians, g = chain()
    return {"reversed_order_error": largest(np.linalg.multi_dot([j.T for j in reversed(jacobians)] + [g[-1]]) - g[0])}


@named
def through(matrix, g, depth, residual=False):
    """A gradient carried back through so many equal linear layers h ← h W, or h ← h + h W, by the package."""
    w = np.array(matrix, dtype=float)
    _, cache = linear.linear(np.ones((1, len(w))), w)
    g = np.array([g], dtype=float)
    for _ in range(depth):
        g = linear.linear_backward(g, cache)[0] + (g if residual else 0)
    return g[0]


def relative(found, right):
    return abs(found - right) / abs(right)


@claim("d2-s7-scalar-gain")
def scalar_gain():
    return max(relative(through([[a]], [1], depth)[0], a**depth) for a in (0.9, 1.1, -0.7) for depth in (7, 100))


@claim("d2-s7-direct-gain")
def direct_gain():
    cases = [(a, depth) for a in (0.9, 1.1, -0.7) for depth in (7, 100)]
    return max(relative(gains(a, depth)[0], abs(through([[a]], [1], depth)[0])) for a, depth in cases)


@claim("d2-s7-residual-gain")
def residual_chain_gain():
    cases = [(a, depth) for a in (0.1, -0.1, -1.7) for depth in (7, 100)]
    return max(relative(gains(a, depth)[1], abs(through([[a]], [1], depth, residual=True)[0])) for a, depth in cases)


@claim("d2-s7-matrix-directions")
def directions():
    return {
        "diag_0.9_1.1_gains": through([[0.9, 0], [0, 1.1]], [1, 1], 100),
        "nilpotent_norm_after_two_layers": np.linalg.norm(through([[0, 1], [0, 0]], [1, 1], 2)),
    }


# ---- residual layers ----
def residual_layer():
    """h + F(h) at one row: J_F from the package's backward, and the whole Jacobian by complex step."""
    h = draw(1, 3)
    _, cache = feed_forward.feed_forward(h, *layer_weights(0))
    rows = [feed_forward.feed_forward_backward(unit[None], cache)[0][0] for unit in np.eye(3)]
    return cache, np.array(rows), jacobian(lambda h: h + plain_feed_forward(h, *layer_weights(0)), h)


@claim("d2-s7-residual-jacobian")
def residual_jacobian():
    _, j_f, witness = residual_layer()
    return largest(np.eye(3) + j_f - witness)


@claim("d2-s7-residual-gradient")
def residual_gradient():
    cache, j_f, witness = residual_layer()
    g = draw(1, 3, seed=9)
    package = g + feed_forward.feed_forward_backward(g, cache)[0]
    return largest((np.eye(3) + j_f).T @ g[0] - witness.T @ g[0], package[0] - witness.T @ g[0])


# ---- where the norm stands ----
def norm_jacobian(x):
    """The Jacobian of layer norm at one row, from the package's backward."""
    _, cache = norm.layer_norm(x, np.ones(4), np.zeros(4))
    return np.array([norm.layer_norm_backward(unit[None], cache)[0][0] for unit in np.eye(4)])


@claim("d2-s7-prenorm-jf")
def norm_inside_and_outside():
    x, w = draw(1, 4), draw(4, 4)

    def plain_norm(x):
        return plain_layer_norm(x, np.ones(4), np.zeros(4), 1e-5)

    pre = jacobian(lambda x: x + plain_norm(x) @ w, x)
    post = jacobian(lambda x: plain_norm(x + x @ w), x)
    assert largest(norm_jacobian(x + x @ w) @ (np.eye(4) + w.T) - post) < 1e-12
    return {
        "prenorm_residual_is_I_plus_W_Jnorm": largest(np.eye(4) + w.T @ norm_jacobian(x) - pre) < 1e-12,
        "postnorm_rank": np.linalg.matrix_rank(post, tol=1e-9),
        "postnorm_kills_constant_upstream": largest(post.T @ np.ones(4)) < 1e-12,
    }


@functools.cache
def last_layer_gradient(placement, n_layers, seeds=4):
    """The norm of ∂L/∂W₂ in the last block of a stack as it is initialised, on average over a few of them."""
    config = Config(d_model=32, n_heads=4, d_ff=128, n_layers=n_layers, source_vocab=1, target_vocab=64, norm=placement)
    norms = []
    for seed in range(seeds):
        inputs, targets, *_ = loss.next_token(np.random.default_rng(seed).integers(0, 64, (2, 25)))
        out = decoder.forward(decoder.init(config, seed), config, inputs)
        grads = decoder.backward(loss.cross_entropy(out.logits, targets)[1], out.cache)
        norms.append(np.linalg.norm(grads[f"block.{n_layers - 1}.feed_forward.w_2"]))
    return float(np.mean(norms))


@claim("d2-s7-xiong")
def gradients_at_initialisation():
    post, pre = (last_layer_gradient(placement, 16) / last_layer_gradient(placement, 4) for placement in ("post", "pre"))
    return {
        "post_last_layer_gradient_ratio_L16_to_L4_near_1": 0.8 < post < 1.25,
        "pre_last_layer_gradient_ratio_L16_to_L4_near_half": 0.4 < pre < 0.6,
        "post_exceeds_pre_at_L16": last_layer_gradient("post", 16) > last_layer_gradient("pre", 16),
    }
