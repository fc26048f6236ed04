"""Preferences: a reward fitted to pairs, DPO, and a policy step with a KL penalty."""

import sympy as sp

from .derivation import Derivation, counted, derive, symbols
from .softmax import softmax


def log_sigmoid(x: sp.Expr) -> sp.Expr:
    """log σ(x) = −log(1 + e^(−x))"""
    return -sp.log(1 + sp.exp(-x))


def bradley_terry(chosen: sp.Expr, rejected: sp.Expr) -> sp.Expr:
    """L = −log σ(r_w − r_l), for one pair"""
    return -log_sigmoid(chosen - rejected)


def dpo(chosen: sp.Expr, rejected: sp.Expr, reference_chosen: sp.Expr, reference_rejected: sp.Expr, beta: sp.Expr) -> sp.Expr:
    """L = −log σ(β[(log π(y_w) − log π_ref(y_w)) − (log π(y_l) − log π_ref(y_l))]), for one pair"""
    return bradley_terry(beta * (chosen - reference_chosen), beta * (rejected - reference_rejected))


def bradley_terry_derivation() -> dict[str, Derivation]:
    """dr_w = −σ(r_l − r_w),  dr_l = σ(r_l − r_w)"""
    r_w, r_l, s = (sp.Symbol(name, real=True) for name in ("r_w", "r_l", "s"))
    inputs = {"chosen": sp.Matrix([[r_w]]), "rejected": sp.Matrix([[r_l]])}
    y, where = sp.ImmutableMatrix([[bradley_terry(r_w, r_l)]]), {s: 1 / (1 + sp.exp(r_w - r_l))}
    stated = r"L = -\log \sigma(r_w - r_l)"
    return {
        "dchosen": derive("Bradley-Terry", y, inputs, "chosen", sp.Matrix([[-s]]), stated, r"dr_w = -\sigma(r_l - r_w)", where=where),
        "drejected": derive("Bradley-Terry", y, inputs, "rejected", sp.Matrix([[s]]), stated, r"dr_l = \sigma(r_l - r_w)", where=where),
    }


@counted
def dpo_derivation(answers: int = 3) -> dict[str, Derivation]:
    """∂L/∂log π(y_w) = −β s,  ∂L/∂log π(y_l) = β s,  s = σ(−m);  dz = −β s (e_w − e_l) for a policy softmax(z) over whole answers

    The last has answers 0 (chosen) and 1 (rejected) among `answers`.
    """
    names = (r"\ell_w", r"\ell_l", r"\rho_w", r"\rho_l", "beta", "s")
    c, r, rc, rr, beta, s = (sp.Symbol(name, real=True) for name in names)
    fixed = {"reference_chosen": sp.Matrix([[rc]]), "reference_rejected": sp.Matrix([[rr]]), "beta": sp.Matrix([[beta]])}
    pair = {"chosen": sp.Matrix([[c]]), "rejected": sp.Matrix([[r]])} | fixed
    y = sp.ImmutableMatrix([[dpo(c, r, rc, rr, beta)]])
    where = {s: 1 / (1 + sp.exp(beta * ((c - rc) - (r - rr))))}
    stated = r"L = -\log \sigma\big(\beta[(\ell_w - \rho_w) - (\ell_l - \rho_l)]\big)"

    z = symbols("z", 1, answers)
    total = sp.log(sum(sp.exp(entry) for entry in z))
    over = sp.ImmutableMatrix([[dpo(z[0] - total, z[1] - total, rc, rr, beta)]])
    unit = sp.Matrix(1, answers, lambda _, k: (k == 0) - (k == 1))
    where_z = {s: 1 / (1 + sp.exp(beta * ((z[0] - rc) - (z[1] - rr))))}
    return {
        "dchosen": derive("DPO", y, pair, "chosen", sp.Matrix([[-beta * s]]), stated, r"d\ell_w = -\beta\,\sigma(-m)", where=where),
        "drejected": derive("DPO", y, pair, "rejected", sp.Matrix([[beta * s]]), stated, r"d\ell_l = \beta\,\sigma(-m)", where=where),
        "dlogits": derive(
            "DPO on a policy over whole answers", over, {"logits": z} | fixed, "logits", -beta * s * unit,
            r"L = -\log \sigma(m)", r"dz = -\beta\,\sigma(-m)\,(e_w - e_l)", where=where_z,
        ),
    }  # fmt: skip


@counted
def expected_reward_derivation(answers: int = 3) -> dict[str, Derivation]:
    """dz_k = π_k (A_k − Σ_y π_y A_y),  A = r − β log(π/π_ref)"""
    z, r = symbols("z", 1, answers), symbols("r", 1, answers)
    reference = sp.ImmutableMatrix(1, answers, lambda _, k: sp.Symbol(rf"\rho_{k}", positive=True))
    p, a = symbols("p", 1, answers), symbols("A", 1, answers)
    beta = sp.Symbol("beta", real=True)
    policy = softmax(z)
    value = sum(policy[k] * (r[k] - beta * sp.log(policy[k] / reference[k])) for k in range(answers))
    mean = sum(p[k] * a[k] for k in range(answers))
    rule = sp.Matrix(1, answers, lambda _, k: p[k] * (a[k] - mean))
    where = {p[k]: policy[k] for k in range(answers)} | {a[k]: r[k] - beta * sp.log(p[k] / reference[k]) for k in range(answers)}
    inputs = {"logits": z, "reference": reference, "reward": r, "beta": sp.Matrix([[beta]])}
    stated, formula = r"J = \textstyle\sum_y \pi_y A_y", r"dz_k = \pi_k\,(A_k - \textstyle\sum_y \pi_y A_y)"
    return {"dlogits": derive("reward less KL", sp.ImmutableMatrix([[value]]), inputs, "logits", rule, stated, formula, where=where)}
