"""From logits to the next token: the likeliest, or one drawn at random."""

import numpy as np
from jaxtyping import Bool, Float, Int

from ..doors import whole
from .checks import checked, plain
from .softmax import softmax

Array = np.ndarray
(softmax,) = plain(softmax)


def _check_choices(logits, temperature, top_k, top_p):
    _check_logits(logits)
    if temperature <= 0:
        raise ValueError(f"temperature was {temperature}; it must be a finite number above 0 (greedy is the limit at 0)")
    if top_k is not None:
        whole("top_k", top_k)
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p was {top_p}; it must lie in (0, 1]")


def _check_top_k(p, k):
    _check_rows(p)
    whole("k", k)


def _check_top_p(p, mass):
    _check_rows(p)
    if not 0 < mass <= 1:
        raise ValueError(f"mass was {mass}; it must lie in (0, 1]")


def _check_rows(p):
    if not p.ndim or not p.shape[-1] or np.isnan(p).any():
        raise ValueError(f"p had shape {p.shape}; it must be (..., vocab), without NaN")


def _check_logits(logits):
    if logits.ndim < 1 or not logits.shape[-1]:
        raise ValueError(f"logits had shape {logits.shape}; it must be (..., vocab)")
    top = logits.max(axis=-1)
    if not np.isfinite(top).all():
        raise ValueError("logits held NaN, +inf or a row of nothing but -inf; each row must have a largest finite entry")


@checked(_check_logits, finite=False)
def greedy(logits: Float[Array, "... vocab"]) -> Int[Array, "..."]:
    """argmax_k z_k; of equal logits the first"""
    return logits.argmax(axis=-1)


@checked(_check_choices, finite=False)
def probabilities(
    logits: Float[Array, "... vocab"], temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Float[Array, "... vocab"]:
    """p = softmax(z / temperature), over the tokens that top_k and then top_p leave

    Temperature below 1 sharpens the distribution, above 1 it flattens it. top_k keeps the k likeliest tokens. top_p
    keeps the smallest set of likeliest tokens whose probabilities, among what top_k left, add up to at least p, but for
    rounding: three of six equal ones are a half. The likeliest are those of the largest logits, also where rounding has made
    two probabilities one; of equal logits the first.
    Raises ValueError for logits that are not float32 or float64, NaN or +∞ or all −∞, a temperature that is not above 0, a k
    that is not a whole number of at least 1, and a p outside (0, 1].
    Sources: Fan et al. 2018 for top-k, Holtzman et al. 2020 for top-p.
    """
    # The largest logit first becomes 0, so that a tiny temperature cannot overflow.
    with np.errstate(over="ignore"):  # but to −∞, where the probability is 0
        scaled = (logits - logits.max(axis=-1, keepdims=True)) / temperature
    p, _ = softmax(scaled)
    if top_k is not None:
        p, _ = softmax(scaled, top_k_mask.rule(logits, top_k))
    if top_p is not None and top_p < 1:
        p, _ = softmax(scaled, _mass_mask(p, top_p, np.argsort(-np.where(p > 0, logits, -np.inf), axis=-1, kind="stable")))
    return p


@checked(_check_top_k, finite=False)
def top_k_mask(p: Float[Array, "... vocab"], k: int) -> Bool[Array, "... vocab"]:
    """True at the k largest entries; of equal ones the first, so that there are never more than k"""
    mask = np.zeros(p.shape, bool)
    np.put_along_axis(mask, _descending(p)[..., :k], True, axis=-1)
    return mask


@checked(_check_top_p)
def top_p_mask(p: Float[Array, "... vocab"], mass: float) -> Bool[Array, "... vocab"]:
    """True at the largest entries, up to and with the one at which their sum reaches the mass, but for rounding; of equal ones the first"""
    return _mass_mask(p, mass, _descending(p))


def _mass_mask(p, mass, order):
    sorted_p = np.take_along_axis(p, order, axis=-1)
    before = np.zeros(p.shape)  # what the entries in front add up to, in float64 whatever p is
    before[..., 1:] = sorted_p[..., :-1].cumsum(axis=-1, dtype=np.float64)
    # each p was rounded, and so was each of the sums
    rounding = 4 * np.finfo(p.dtype).eps + np.finfo(np.float64).eps * np.arange(p.shape[-1])
    mask = np.empty(p.shape, bool)
    np.put_along_axis(mask, order, (before < mass * (1 - rounding)) & (sorted_p > 0), axis=-1)
    return mask


@checked(_check_choices, finite=False)
def sample(
    logits: Float[Array, "... vocab"],
    rng: np.random.Generator,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Int[Array, "..."]:
    """A token drawn from probabilities(logits, temperature, top_k, top_p)

    The first token at which the running sum of p exceeds a uniform number of the generator's. Raises as
    probabilities does, and ValueError where rng is not a numpy.random.Generator.
    """
    p = probabilities.rule(logits, temperature, top_k, top_p)
    running = p.cumsum(axis=-1, dtype=np.float64)
    whole = running[..., -1:]  # 1 but for rounding
    u = np.minimum(rng.random((*p.shape[:-1], 1)) * whole, np.nextafter(whole, 0))
    return (running > u).argmax(axis=-1)


def _descending(p):
    return np.argsort(-p, axis=-1, kind="stable")
