"""Document 2, section 6: the transformer block, positions and norms."""

import math

import numpy as np

from byhand import Config, toy
from byhand.numpy import attention, decoder, feed_forward, layers, norm, position

from . import claim, extra, named
from .samples import draw, largest, plain_attention, plain_feed_forward, plain_layer_norm

BLOCK = "block.0"


# ---- the block ----
def mlp_weights():
    return draw(4, 7), draw(7), draw(7, 4), draw(4)


def moved_by_row_1(function):
    """How far each row of a function of three rows moves when row 1 is changed."""
    x = draw(1, 3, 4)
    changed = x + np.array([[0.0], [1.0], [0.0]])
    return np.abs(function(changed) - function(x))[0].max(axis=-1)


@claim("d2-s6-mlp-positionwise")
def who_mixes_positions():
    weights = [draw(4, 4, seed=i) for i in range(4)]
    by_mlp = moved_by_row_1(lambda x: feed_forward.feed_forward(x, *mlp_weights())[0])
    by_attention = moved_by_row_1(lambda x: attention.multi_head_attention(x, x, *weights, n_heads=2)[0])
    return {"changing_one_row_changes_others": largest(by_mlp[[0, 2]]), "attention_does_mix": bool((by_attention > 0).all())}


def rows_and_params(norm="pre"):
    """The small block's input rows, its parameters and its configuration."""
    case = toy.block(norm)
    rows = decoder.forward(case.params, case.config, case.decoder_input).activations["input"]
    return rows, case.params, case.config


@claim("d2-s6-residual-stream")
def silent_branches():
    x, params, config = rows_and_params()
    silent = {f"{BLOCK}.{name}": 0 * params[f"{BLOCK}.{name}"] for name in ("attention.w_o", "feed_forward.w_2", "feed_forward.b_2")}
    return {"zero_sublayers_preserve_input": largest(layers.pre_norm_block(x, layers.Rooms(params | silent, config, BLOCK))[0] - x)}


@claim("d2-s6-preblock")
def pre_norm_formula():
    x, params, config = rows_and_params()
    p = {name.removeprefix(f"{BLOCK}."): value for name, value in params.items()}

    def normed(rows, name):
        return plain_layer_norm(rows, p[f"{name}.gamma"], p[f"{name}.beta"], config.eps)

    def attend(rows):
        q, k, v = (rows @ p[f"attention.{name}"] for name in ("w_q", "w_k", "w_v"))
        heads = (slice(0, 2), slice(2, 4))
        mixed = [plain_attention(q[..., head], k[..., head], v[..., head], np.tri(3, dtype=bool)) for head in heads]
        return np.concatenate(mixed, axis=-1) @ p["attention.w_o"]

    u = x + attend(normed(x, "norm_1"))
    mlp = (p[f"feed_forward.{name}"] for name in ("w_1", "b_1", "w_2", "b_2"))
    return largest(u + plain_feed_forward(normed(u, "norm_2"), *mlp) - layers.pre_norm_block(x, layers.Rooms(params, config, BLOCK))[0])


def by_columns(z, w_1, b_1, w_2, b_2):
    """W₂ φ(W₁ z + b₁) + b₂, as the document writes it, with φ = ReLU."""
    return w_2 @ np.maximum(w_1 @ z + b_1, 0) + b_2


@claim("d2-s6-mlp-formula")
def columns_and_rows():
    rows = draw(3, 4)
    w_1, b_1, w_2, b_2 = mlp_weights()
    y, _ = feed_forward.feed_forward(rows, w_1, b_1, w_2, b_2)
    return largest(y - [by_columns(z, w_1.T, b_1, w_2.T, b_2) for z in rows])


@claim("d2-s6-convention")
def weights_of_the_other_convention():
    rows, w_1, w_2, b = draw(3, 4), draw(4, 4), draw(4, 4, seed=1), draw(4)
    try:
        by_columns(rows[0], *mlp_weights())
        raised = False
    except ValueError:
        raised = True
    y, _ = feed_forward.feed_forward(rows, w_1, b, w_2, b)
    return {"row_weights_in_column_formula_raise": raised, "square_weights_silently_wrong": largest(by_columns(rows[0], w_1, b, w_2, b) - y[0]) > 0.1}


# ---- positions ----
def last_logits(tokens, n_layers):
    """What a stack without positions expects after the last token."""
    config = Config(d_model=8, n_heads=2, d_ff=16, n_layers=n_layers, source_vocab=1, target_vocab=9, norm="pre", positions="none")
    return decoder.forward(decoder.init(config, seed=1), config, np.array([tokens])).logits[0, -1]


def prefix_order_moves(n_layers):
    return largest(last_logits([3, 5, 7, 2], n_layers) - last_logits([5, 3, 7, 2], n_layers))


@claim("d2-s6-position-must-enter")
def what_attention_knows_of_order():
    x, order, weights = draw(1, 5, 4), [3, 0, 4, 1, 2], [draw(4, 4, seed=i) for i in range(4)]
    (y, _), (shuffled, _) = (attention.multi_head_attention(rows, rows, *weights, n_heads=2) for rows in (x, x[:, order]))
    return {
        "unmasked_attention_is_permutation_equivariant": largest(shuffled - y[:, order]) < 1e-12,
        "causal_one_layer_last_output_ignores_prefix_order": prefix_order_moves(1) < 1e-12,
        "causal_two_layers_last_output_sees_prefix_order": prefix_order_moves(2) > 1e-3,
    }


@named
def rotated(x, place):
    """A row rotated by its position, by the package."""
    return position.rope(x[None], np.array([place]))[0][0]


def rotation_matrix(place):
    """R for columns, from the angles: 2 × 2 blocks along the diagonal."""
    r = np.zeros((4, 4))
    for i in range(2):
        theta = place * 10000 ** (-2 * i / 4)
        c, s = math.cos(theta), math.sin(theta)
        r[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[c, -s], [s, c]]
    return r


@claim("d2-s6-rope-formula")
def rotated_product():
    q, k = draw(4), draw(4, seed=1)
    products = [(rotated(q, i) @ rotated(k, j), q @ rotation_matrix(i).T @ rotation_matrix(j) @ k) for i in range(4) for j in range(4)]
    return max(abs(package - printed) for package, printed in products)


@extra("d2-s6-rope-formula")
def rotation_by_the_difference():
    """For positions that are symbols. SymPy's matrices act on rows: R for columns is their transpose."""
    import sympy

    from byhand.sympy.position import rotation

    i, j = sympy.symbols("i j", real=True)
    difference = rotation(i, 4) * rotation(j, 4).T - rotation(j - i, 4).T
    return {"r_i_transpose_r_j_is_r_j_minus_i": difference.applyfunc(sympy.expand_trig).expand().is_zero_matrix}


# ---- norms ----
@named
def layer_norm(x, eps=0.0):
    return norm.layer_norm(x, np.ones(6), np.zeros(6), eps)[0]


@named
def rms_norm(x, eps=0.0):
    return norm.rms_norm(x, np.ones(6), eps)[0]
