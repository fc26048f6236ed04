"""Which shapes and choices fit together, for the arrays of every floor: only shapes are read, so NumPy's and PyTorch's are looked at alike."""

from collections.abc import Iterable
from typing import Any

from .config import PAIRINGS, Config
from .doors import whole
from .parameters import position_shapes


def check_choice(name: str, value: str, known: Iterable[str]) -> None:
    """Raise ValueError unless value is one of those known."""
    if value not in known:
        raise ValueError(f"{name} was {value!r}; it must be one of {', '.join(map(repr, known))}")


def check_product(**named: Any) -> None:
    """Raise ValueError unless these arrays, rows, a matrix and perhaps a bias, fit together as x w + b."""
    (x, rows), (w, matrix), *bias = named.items()
    if matrix.ndim != 2:
        raise ValueError(f"{w} had shape {tuple(matrix.shape)}; it must be (d_in, d_out)")
    if rows.shape[-1:] != matrix.shape[:1]:
        raise ValueError(f"{x} had shape {tuple(rows.shape)}; its last axis must be {w}'s first, {len(matrix)}")
    for b, value in bias:
        if value.shape != matrix.shape[1:]:
            raise ValueError(f"{b} had shape {tuple(value.shape)}; it must be {tuple(matrix.shape[1:])}, {w}'s last axis")


def check_linear(x, w, b) -> None:
    """Raise ValueError unless x w + b can be formed, or x w where b is None."""
    check_product(x=x, w=w, **_bias(b=b))


def _bias(**named):
    return {name: b for name, b in named.items() if b is not None}


def check_norm(x, eps: float, **gain: Any) -> None:
    """Raise ValueError unless the rows of x can be normed, with this eps and a gain (and bias) of their width."""
    if eps < 0:
        raise ValueError(f"eps was {eps}; it must be a finite number of at least 0")
    if not x.ndim or not x.shape[-1]:
        raise ValueError(f"x had shape {tuple(x.shape)}; it must be (..., d) with a d of at least 1")
    for name, value in gain.items():
        if value.shape != x.shape[-1:]:
            raise ValueError(f"{name} had shape {tuple(value.shape)}; it must be {tuple(x.shape[-1:])}, x's last axis")


def check_feed_forward(x, w_1, b_1, w_2, b_2, activation: str, w_3, known: Iterable[str]) -> None:
    """Raise ValueError unless the two layers fit together, and a gate stands where the activation has one."""
    check_choice("activation", activation, known)
    if (activation == "swiglu") != (w_3 is not None):
        given = "missing" if w_3 is None else "given"
        raise ValueError(f"w_3 was {given} and activation was {activation!r}; w_3 is the gate of 'swiglu', and of no other")
    if (b_1 is None) != (b_2 is None):
        first, second = ("missing" if b is None else "given" for b in (b_1, b_2))
        raise ValueError(f"b_1 was {first} and b_2 {second}; both biases must be given, or neither")
    check_product(x=x, w_1=w_1, **_bias(b_1=b_1))
    check_product(hidden=w_1[:0], w_2=w_2, **_bias(b_2=b_2))
    if w_3 is not None and w_3.shape != w_1.shape:
        raise ValueError(f"w_3 had shape {tuple(w_3.shape)}; it must be w_1's, {tuple(w_1.shape)}")


def check_learned(learned, config: Config, last) -> None:
    """Raise ValueError unless the table of positions is given just where the model learns them, and has a row for the last; None: nobody looks at it."""
    shape, given = position_shapes(config, "learned").get("learned"), None if learned is None else tuple(learned.shape)
    if given != shape:
        raise ValueError(f"learned had shape {given}; with positions {config.positions!r} it must be {shape}")
    if learned is not None and last is not None and last >= len(learned):
        raise ValueError(f"positions held {last}; each must be below max_length, {len(learned)}")


def check_sinusoidal(length: int, d_model: int, pairing: str) -> None:
    """Raise ValueError unless there are rows, of an even width."""
    check_choice("pairing", pairing, PAIRINGS)
    whole("length", length)
    whole("d_model", d_model)
    if d_model % 2:
        raise ValueError(f"d_model was {d_model}; it must be even, since sine and cosine come in pairs")


def check_rotation(x, base: float, pairing: str) -> None:
    """Raise ValueError unless the rows of x can be rotated pair by pair."""
    check_choice("pairing", pairing, PAIRINGS)
    if x.ndim < 2 or x.shape[-1] % 2:
        raise ValueError(f"x had shape {tuple(x.shape)}; it must be (..., time, d_k) with an even d_k, since coordinates rotate in pairs")
    if base <= 0:
        raise ValueError(f"base was {base}; it must be a finite number above 0")


def check_places(positions, x) -> None:
    """Raise ValueError unless there is one position for each of x's times, or a row of them a sequence."""
    time = x.shape[-2]
    if positions.shape != (time,) and (x.ndim < 3 or positions.shape != (len(x), time)):
        raise ValueError(f"positions had shape {tuple(positions.shape)}; it must be ({time},), x's time, or (batch, {time})")


def check_split(x, n_heads: int) -> None:
    """Raise ValueError unless the width of x can be cut into heads."""
    if x.ndim != 3:
        raise ValueError(f"x had shape {tuple(x.shape)}; it must be (batch, time, heads·d)")
    whole("n_heads", n_heads)
    if x.shape[2] % n_heads:
        raise ValueError(f"n_heads was {n_heads}; it must divide the width, {x.shape[2]}")


def check_projections(x, memory, w_q, w_k, w_v, n_heads: int, n_kv_heads: int) -> None:
    """Raise ValueError unless queries of x and keys and values of memory come out in heads that fit each other."""
    whole("n_heads", n_heads)
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ValueError(f"n_kv_heads was {n_kv_heads}; it must divide n_heads, {n_heads}")
    check_product(x=x, w_q=w_q)
    check_product(memory=memory, w_k=w_k)
    check_product(memory=memory, w_v=w_v)
    if x.ndim != 3 or memory.ndim != 3 or len(x) != len(memory):
        raise ValueError(f"x had shape {tuple(x.shape)} and memory {tuple(memory.shape)}; both must be (batch, time, d_model), of one batch")
    for name, w, heads in (("w_q", w_q, n_heads), ("w_k", w_k, n_kv_heads), ("w_v", w_v, n_kv_heads)):
        if w.shape[1] % heads:
            raise ValueError(f"{name} had width {w.shape[1]}; its {heads} heads must divide it")
    d_k = w_q.shape[1] // n_heads
    if w_k.shape[1] != n_kv_heads * d_k:
        raise ValueError(f"w_k had width {w_k.shape[1]}; it must be n_kv_heads · d_k, {n_kv_heads * d_k}, with w_q's d_k, {d_k}")


def check_biases(weights: dict[str, Any], biases: dict[str, Any]) -> None:
    """Raise ValueError unless each of these matrices has a bias of its width, or none has one; both in one order."""
    given = _bias(**biases)
    for (w, matrix), (name, b) in zip(weights.items(), biases.items()):
        if given and b is None:
            raise ValueError(f"{name} was missing and {next(iter(given))} given; all projections must have a bias, or none")
        if given and b.shape != matrix.shape[1:]:
            raise ValueError(f"{name} had shape {tuple(b.shape)}; it must be {tuple(matrix.shape[1:])}, {w}'s last axis")


def check_output_projection(x, w_v, w_o, n_heads: int, n_kv_heads: int) -> None:
    """Raise ValueError unless w_o takes the heads, side by side, back to the width of x."""
    out = (w_v.shape[1] // n_kv_heads * n_heads, x.shape[2])
    if w_o.shape != out:
        raise ValueError(f"w_o had shape {tuple(w_o.shape)}; it must be {out}: n_heads · d_v, with w_v's d_v, and x's last axis")
