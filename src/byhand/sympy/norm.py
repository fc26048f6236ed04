"""Layer normalisation and RMS normalisation of each row, stage by stage."""

import sympy as sp

from .derivation import Derivation, counted, derive, symbols
from .rows import each_row


def layer_norm(x: sp.Matrix, gamma: sp.Matrix, beta: sp.Matrix, eps: sp.Expr = sp.Rational(1, 100000)) -> sp.Matrix:
    """y = γ x̂ + β,  x̂ = (x − μ) / √(σ² + ε)

    x (time, d), γ and β (1, d); σ² is divided by d, not d − 1.
    Raises ValueError for ε < 0 and for a constant row under ε = 0. Source: Ba, Kiros and Hinton 2016, equations 3 and 4.
    """
    mu = mean(x)
    return gain_and_shift(normalise(x, mu, variance(x, mu), eps), gamma, beta)


@each_row("x")
def mean(x: sp.Matrix) -> sp.Matrix:
    """μ = Σ_i x_i / d, one a row"""
    return x * sp.ones(x.cols, 1) / x.cols


@each_row("x", "mu")
def variance(x: sp.Matrix, mu: sp.Matrix) -> sp.Matrix:
    """σ² = Σ_i (x_i − μ)² / d, one a row"""
    return (x - mu * sp.ones(1, x.cols)).applyfunc(lambda deviation: deviation**2) * sp.ones(x.cols, 1) / x.cols


@each_row("x", "mu", "var")
def normalise(x: sp.Matrix, mu: sp.Matrix, var: sp.Matrix, eps: sp.Expr) -> sp.Matrix:
    """x̂ = (x − μ) / √(σ² + ε)"""
    if sp.sympify(eps).is_negative:
        raise ValueError(f"eps was {eps}; it must be at least 0")
    if eps == 0 and any(value.is_zero for value in var):
        raise ValueError("x has a constant row and eps was 0; such a row has no direction to normalise: eps must be above 0")
    return sp.ImmutableMatrix(x.rows, x.cols, lambda i, j: (x[i, j] - mu[i]) / sp.sqrt(var[i] + eps))


@each_row("normalised")
def gain_and_shift(normalised: sp.Matrix, gamma: sp.Matrix, beta: sp.Matrix) -> sp.Matrix:
    """y = γ x̂ + β"""
    return sp.ImmutableMatrix(normalised.rows, normalised.cols, lambda i, j: gamma[j] * normalised[i, j] + beta[j])


def rms_norm(x: sp.Matrix, gamma: sp.Matrix, eps: sp.Expr = sp.Rational(1, 100000)) -> sp.Matrix:
    """y = γ x̂,  x̂ = x / √(mean(x²) + ε)

    Layer norm without the centring and without β. Raises ValueError for ε < 0 and for a row of zeros under ε = 0.
    Source: Zhang and Sennrich 2019, equation 4.
    """
    return gain(rescale(x, mean_square(x), eps), gamma)


@each_row("x")
def mean_square(x: sp.Matrix) -> sp.Matrix:
    """mean(x²) = Σ_i x_i² / d, one a row"""
    return x.applyfunc(lambda value: value**2) * sp.ones(x.cols, 1) / x.cols


@each_row("x", "square")
def rescale(x: sp.Matrix, square: sp.Matrix, eps: sp.Expr) -> sp.Matrix:
    """x̂ = x / √(mean(x²) + ε)"""
    if sp.sympify(eps).is_negative:
        raise ValueError(f"eps was {eps}; it must be at least 0")
    if eps == 0 and any(value.is_zero for value in square):
        raise ValueError("x has a row of zeros and eps was 0; such a row has no direction to normalise: eps must be above 0")
    return sp.ImmutableMatrix(x.rows, x.cols, lambda i, j: x[i, j] / sp.sqrt(square[i] + eps))


@each_row("normalised")
def gain(normalised: sp.Matrix, gamma: sp.Matrix) -> sp.Matrix:
    """y = γ x̂"""
    return sp.ImmutableMatrix(normalised.rows, normalised.cols, lambda i, j: gamma[j] * normalised[i, j])


@counted
def layer_norm_derivation(d: int = 3, rows: int = 1) -> dict[str, Derivation]:
    """dx = (dx̂ − mean(dx̂) − x̂ · mean(dx̂ ⊙ x̂)) / σ,  dx̂ = γ ⊙ dy,  σ = √(σ² + ε),  with a γ of d different entries

    dγ = Σ_rows dy ⊙ x̂,  dβ = Σ_rows dy. Derived for any ε ≥ 0.
    """
    x, gamma, beta, dy = symbols("x", rows, d), symbols("gamma", 1, d), symbols("beta", 1, d), symbols("dy", rows, d)
    eps = sp.Symbol("epsilon", nonnegative=True)
    inputs = {"x": x, "gamma": gamma, "beta": beta, "eps": sp.Matrix([[eps]]), "dy": dy}
    y, mu = layer_norm(x, gamma, beta, eps), mean(x)
    var = variance(x, mu)

    def named(name, cols=1):
        return symbols(name, rows, cols) if rows > 1 or cols > 1 else sp.Matrix([[sp.Symbol(name, real=True)]])

    hat, dhat, sigma = named(r"\hat{x}", d), named(r"d\hat{x}", d), [sp.Symbol(rf"\sigma_{i}" if rows > 1 else r"\sigma", positive=True) for i in range(rows)]
    along_ones, along_hat = named(r"\overline{d\hat{x}}"), named(r"\overline{d\hat{x} \odot \hat{x}}")
    where = {sigma[i]: sp.sqrt(var[i] + eps) for i in range(rows)}
    where |= {hat[i, j]: (x[i, j] - mu[i]) / sigma[i] for i in range(rows) for j in range(d)}
    where |= {dhat[i, j]: gamma[j] * dy[i, j] for i in range(rows) for j in range(d)}
    where |= dict(zip(along_ones, mean(dhat))) | dict(zip(along_hat, mean(dhat.multiply_elementwise(hat))))

    over_rows = sp.ones(1, rows)
    dx = sp.Matrix(rows, d, lambda i, j: (dhat[i, j] - along_ones[i] - hat[i, j] * along_hat[i]) / sigma[i])
    formula = r"dX = \frac{1}{\sigma}\left(d\hat{X} - \overline{d\hat{X}} - \hat{x}\,\overline{d\hat{X} \odot \hat{x}}\right),\quad d\hat{X} = \gamma \odot dY"
    dgamma, dbeta = r"d\gamma = \textstyle\sum_{\text{rows}} dY \odot \hat{x}", r"d\beta = \textstyle\sum_{\text{rows}} dY"
    # σ taken as the unknown in place of ε, so that the root is gone; with several rows each has a root of its own
    relation = {eps: sigma[0] ** 2 - var[0]} if rows == 1 else {}
    shared = {"stated": r"Y = \gamma \odot \hat{x} + \beta", "where": where, "relation": relation}
    return {
        "dx": derive("layer norm", y, inputs, "x", dx, formula=formula, **shared),
        "dgamma": derive("layer norm", y, inputs, "gamma", over_rows * dy.multiply_elementwise(hat), formula=dgamma, **shared),
        "dbeta": derive("layer norm", y, inputs, "beta", over_rows * dy, formula=dbeta, **shared),
    }


@counted
def rms_norm_derivation(d: int = 3, rows: int = 1) -> dict[str, Derivation]:
    """dx = (dx̂ − x̂ · mean(dx̂ ⊙ x̂)) / r,  dx̂ = γ ⊙ dy,  r = √(mean(x²) + ε): the part along x̂ is taken out, the part along the ones stays

    dγ = Σ_rows dy ⊙ x̂. Derived for any ε ≥ 0.
    """
    x, gamma, dy = symbols("x", rows, d), symbols("gamma", 1, d), symbols("dy", rows, d)
    eps = sp.Symbol("epsilon", nonnegative=True)
    inputs = {"x": x, "gamma": gamma, "eps": sp.Matrix([[eps]]), "dy": dy}
    y, square = rms_norm(x, gamma, eps), mean_square(x)
    hat = sp.Matrix(rows, d, lambda i, j: sp.Symbol(rf"\hat{{x}}_{{{i}{j}}}" if rows > 1 else rf"\hat{{x}}_{{{j}}}", real=True))
    root = [sp.Symbol(f"r_{i}" if rows > 1 else "r", positive=True) for i in range(rows)]
    where = {root[i]: sp.sqrt(square[i] + eps) for i in range(rows)}
    where |= {hat[i, j]: x[i, j] / root[i] for i in range(rows) for j in range(d)}

    dhat = sp.Matrix(rows, d, lambda i, j: gamma[j] * dy[i, j])
    along_hat = mean(dhat.multiply_elementwise(hat))
    dx = sp.Matrix(rows, d, lambda i, j: (dhat[i, j] - hat[i, j] * along_hat[i]) / root[i])
    formula = r"dX = \frac{1}{r}\left(d\hat{X} - \hat{x}\,\overline{d\hat{X} \odot \hat{x}}\right),\quad d\hat{X} = \gamma \odot dY"
    dgamma = r"d\gamma = \textstyle\sum_{\text{rows}} dY \odot \hat{x}"
    relation = {eps: root[0] ** 2 - square[0]} if rows == 1 else {}  # as for layer norm
    shared = {"stated": r"Y = \gamma \odot \hat{x}", "where": where, "relation": relation}
    return {
        "dx": derive("RMS norm", y, inputs, "x", dx, formula=formula, **shared),
        "dgamma": derive("RMS norm", y, inputs, "gamma", sp.ones(1, rows) * dy.multiply_elementwise(hat), formula=dgamma, **shared),
    }


@counted
def normalise_derivation(d: int = 3) -> dict[str, Derivation]:
    """The three ways from x to x̂ = (x − μ)/σ, one small step each: dx = dy/σ directly,  dμ = −Σ dy/σ,  dσ² = −½ Σ dy (x − μ)/σ³

    Here x, μ and σ² count as independent. The whole is put together by mean_derivation and variance_derivation:
    dx + dμ/d + dσ² · 2(x − μ)/d.
    """
    x, dy, mu, var = symbols("x", 1, d), symbols("dy", 1, d), sp.Symbol("mu", real=True), sp.Symbol("v", positive=True)
    eps, sigma = sp.Symbol("epsilon", nonnegative=True), sp.Symbol("sigma", positive=True)
    inputs = {"x": x, "mu": sp.Matrix([[mu]]), "var": sp.Matrix([[var]]), "eps": sp.Matrix([[eps]]), "dy": dy}
    y, pull = normalise(x, inputs["mu"], inputs["var"], eps), sum(dy[j] * (x[j] - mu) for j in range(d))
    shared = {"stated": r"\hat{x} = (x - \mu) / \sqrt{\sigma^2 + \epsilon}", "where": {sigma: sp.sqrt(var + eps)}}
    dmu, dvar = sp.Matrix([[-sum(dy) / sigma]]), sp.Matrix([[-pull / (2 * sigma**3)]])
    return {
        "dx": derive("normalise", y, inputs, "x", dy / sigma, formula=r"dX = dY / \sigma", **shared),
        "dmu": derive("normalise", y, inputs, "mu", dmu, formula=r"d\mu = -\textstyle\sum_j dY_j / \sigma", **shared),
        "dvar": derive("normalise", y, inputs, "var", dvar, formula=r"d\sigma^2 = -\tfrac{1}{2}\textstyle\sum_j dY_j (x_j - \mu) / \sigma^3", **shared),
    }


@counted
def mean_derivation(d: int = 3) -> dict[str, Derivation]:
    """dx_i = dμ / d"""
    x, dy = symbols("x", 1, d), symbols("dy", 1, 1)
    return {"dx": derive("mean", mean(x), {"x": x, "dy": dy}, "x", dy * sp.ones(1, d) / d, r"\mu = \textstyle\sum_i x_i / d", r"dX = d\mu / d")}


@counted
def variance_derivation(d: int = 3) -> dict[str, Derivation]:
    """dx_i = dσ² · 2 (x_i − μ) / d, μ counted as moving with x: its own share is 0, since the deviations sum to 0"""
    x, dy, mu = symbols("x", 1, d), symbols("dy", 1, 1), sp.Symbol("mu", real=True)
    y = variance(x, mean(x))
    rule = sp.Matrix(1, d, lambda _, i: dy[0] * 2 * (x[i] - mu) / d)
    stated, formula = r"\sigma^2 = \textstyle\sum_i (x_i - \mu)^2 / d", r"dX = d\sigma^2 \cdot 2(x - \mu) / d"
    return {"dx": derive("variance", y, {"x": x, "dy": dy}, "x", rule, stated, formula, where={mu: mean(x)[0]})}
