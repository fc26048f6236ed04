"""Scaled dot-product attention, one head, stage by stage, and its gradients."""

import sympy as sp

from .derivation import Derivation, counted, derive, symbols
from .linear import linear
from .rows import each_row
from .softmax import Mask, softmax

STATED = r"Y = \operatorname{softmax}\left(Q K^\top / \sqrt{d_k}\right) V"


@each_row("q")
def scores(q: sp.Matrix, k: sp.Matrix) -> sp.Matrix:
    """S = q kᵀ / √d_k"""
    return q * k.T / sp.sqrt(q.cols)


def attention(q: sp.Matrix, k: sp.Matrix, v: sp.Matrix, mask: Mask | None = None, causal: bool = False) -> sp.Matrix:
    """y = softmax(q kᵀ / √d_k) v

    q (t_q, d_k), k (t_k, d_k), v (t_k, d_v): one head of one sequence. mask[i][j] is True where query i may attend to key j;
    causal=True aligns the last query with the last key. Source: Vaswani et al. 2017, equation 1.
    """
    return linear(softmax(scores(q, k), attention_mask(q.rows, k.rows, mask, causal)), v)


def attention_mask(t_q: int, t_k: int, mask: Mask | None = None, causal: bool = False) -> tuple[tuple[bool, ...], ...]:
    """The given mask and the causal one (key j ≤ query i + t_k − t_q) together."""
    return tuple(tuple((mask is None or bool(mask[i][j])) and (not causal or j <= i + t_k - t_q) for j in range(t_k)) for i in range(t_q))


def columns(x: sp.Matrix, start: int, stop: int) -> sp.Matrix:
    """Columns start … stop − 1: one head's block."""
    return x[:, start:stop]


def side_by_side(*blocks: sp.Matrix) -> sp.Matrix:
    """The heads' results beside one another."""
    return sp.ImmutableMatrix.hstack(*blocks)


@counted
def attention_derivation(t_q: int = 2, t_k: int = 2, d_k: int = 2, d_v: int = 2, mask: Mask | None = None, causal: bool = False) -> dict[str, Derivation]:
    """dv = Aᵀ dy,  dA = dy vᵀ,  dS = A ⊙ (dA − Σ dA ⊙ A),  dq = dS k / √d_k,  dk = dSᵀ q / √d_k

    dA and dS are derived at their own stage, from A v and from softmax(S) v; dq, dk and dv from the whole operation in one piece.
    Under a mask A is 0 at the masked places, and the same rules hold.
    """
    q, k, v, dy = symbols("q", t_q, d_k), symbols("k", t_k, d_k), symbols("v", t_k, d_v), symbols("dy", t_q, d_v)
    a, s = symbols("A", t_q, t_k), symbols("S", t_q, t_k)
    allowed = attention_mask(t_q, t_k, mask, causal)
    name, whole = ("masked attention" if mask or causal else "attention"), {"q": q, "k": k, "v": v, "dy": dy}
    y, (rules, where) = attention(q, k, v, allowed), attention_rules(q, k, v, dy, allowed)
    free = _allowed(a, allowed)
    return {
        "dv": derive(name, y, whole, "v", rules["v"], STATED, r"dV = A^\top dY", where=where),
        "dA": derive(name, linear(a, v), {"A": a, "v": v, "dy": dy}, "A", dy * v.T, "Y = A V", r"dA = dY\,V^\top"),
        "dS": derive(
            name, linear(softmax(s, allowed), v), {"S": s, "v": v, "dy": dy}, "S", softmax_rule(free, dy * v.T),
            r"Y = \operatorname{softmax}(S)\,V", r"dS = A \odot \left(dA - \textstyle\sum_j dA_j A_j\right)", where=_named(free, softmax(s, allowed)),
        ),
        "dq": derive(name, y, whole, "q", rules["q"], STATED, r"dQ = dS\,K / \sqrt{d_k}", where=where),
        "dk": derive(name, y, whole, "k", rules["k"], STATED, r"dK = dS^\top Q / \sqrt{d_k}", where=where),
    }  # fmt: skip


@counted
def self_attention_derivation(time: int = 2, d_model: int = 2, d_k: int = 1, d_v: int = 1, causal: bool = False) -> dict[str, Derivation]:
    """dx = dq w_qᵀ + dk w_kᵀ + dv w_vᵀ: x is used three times, so three gradients meet in it

    One head, from x through all three projections to y = attention(x w_q, x w_k, x w_v), differentiated in one piece; and the
    projections' own gradients, dw_q = xᵀ dq, dw_k = xᵀ dk, dw_v = xᵀ dv.
    """
    x, dy = symbols("x", time, d_model), symbols("dy", time, d_v)
    w = {name: symbols(f"w_{name}", d_model, width) for name, width in (("q", d_k), ("k", d_k), ("v", d_v))}
    inputs = {"x": x} | {f"w_{name}": matrix for name, matrix in w.items()} | {"dy": dy}
    q, k, v = (linear(x, w[name]) for name in "qkv")
    allowed = attention_mask(time, time, None, causal)
    y, (d, where) = attention(q, k, v, allowed), _projected(*attention_rules(q, k, v, dy, allowed))
    dx, formula = d["q"] * w["q"].T + d["k"] * w["k"].T + d["v"] * w["v"].T, r"dX = dQ\,W_Q^\top + dK\,W_K^\top + dV\,W_V^\top"
    found = {"dx": derive("self-attention", y, inputs, "x", dx, STATED, formula, where=where)}
    for name in "qkv":
        formula = rf"dW_{name.upper()} = X^\top d{name.upper()}"
        found[f"dw_{name}"] = derive("self-attention", y, inputs, f"w_{name}", x.T * d[name], STATED, formula, where=where)
    return found


@counted
def cross_attention_derivation(t_q: int = 2, t_k: int = 2, d_model: int = 2, d_k: int = 1, d_v: int = 1) -> dict[str, Derivation]:
    """dx = dq w_qᵀ,  dmemory = dk w_kᵀ + dv w_vᵀ: the memory is used twice, the queries' x once"""
    x, memory, dy = symbols("x", t_q, d_model), symbols("m", t_k, d_model), symbols("dy", t_q, d_v)
    w_q, w_k, w_v = symbols("w_q", d_model, d_k), symbols("w_k", d_model, d_k), symbols("w_v", d_model, d_v)
    inputs = {"x": x, "memory": memory, "w_q": w_q, "w_k": w_k, "w_v": w_v, "dy": dy}
    q, k, v = linear(x, w_q), linear(memory, w_k), linear(memory, w_v)
    y, (d, where) = attention(q, k, v), _projected(*attention_rules(q, k, v, dy, attention_mask(t_q, t_k)))
    dmemory, name = d["k"] * w_k.T + d["v"] * w_v.T, "cross-attention"
    return {
        "dx": derive(name, y, inputs, "x", d["q"] * w_q.T, STATED, r"dX = dQ\,W_Q^\top", where=where),
        "dmemory": derive(name, y, inputs, "memory", dmemory, STATED, r"dM = dK\,W_K^\top + dV\,W_V^\top", where=where),
    }


def attention_rules(q: sp.Matrix, k: sp.Matrix, v: sp.Matrix, dy: sp.Matrix, allowed: Mask) -> tuple[dict[str, sp.Matrix], dict]:
    """The textbook's rules for q, k and v, in the symbols A and dS, and what these stand for: what the derivations are compared with."""
    a, d_s = (_allowed(symbols(name, q.rows, k.rows), allowed) for name in ("A", "dS"))
    where = _named(a, softmax(scores(q, k), allowed)) | _named(d_s, softmax_rule(a, dy * v.T))
    root = sp.sqrt(q.cols)
    return {"q": d_s * k / root, "k": d_s.T * q / root, "v": a.T * dy}, where


def softmax_rule(a: sp.Matrix, d_a: sp.Matrix) -> sp.Matrix:
    """The textbook's rule for the scores: dS = A ⊙ (dA − Σ dA ⊙ A)"""
    return sp.Matrix(*a.shape, lambda i, j: a[i, j] * (d_a[i, j] - (d_a[i, :] * a[i, :].T)[0]))


def _projected(rules, where):
    """dq, dk and dv under names of their own, for what lies before them."""
    names = {name: symbols(f"d{name}", *rule.shape) for name, rule in rules.items()}
    for name, rule in rules.items():
        where = where | _named(names[name], rule)
    return names, where


def _allowed(weights, mask):
    """The weights' symbols with 0 at the masked places."""
    return sp.ImmutableMatrix(*weights.shape, lambda i, j: weights[i, j] if mask[i][j] else 0)


def _named(names, values):
    return {name: value for name, value in zip(names, values) if name != 0}
