"""Sizes and choices of a model, checked once, here."""

from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple


class NormPosition(NamedTuple):
    """Where the norms of a block stand."""

    reads: dict[str, str]  # each norm, and the stage that it reads, "….via_norm" where others read it too
    feeds: str  # the stage that the feed-forward network reads
    last: bool  # whether the stack needs one more norm at its end


NORMS = {
    "post": NormPosition({"norm_1": "residual_1", "norm_2": "residual_2"}, feeds="norm_1.out", last=False),
    "pre": NormPosition({"norm_1": "input.via_norm", "norm_2": "residual_1.via_norm"}, feeds="norm_2.out", last=True),
}
NORM_KINDS = ("layer", "rms")
POSITIONS = ("sinusoidal", "learned", "rope", "none")
PAIRINGS = ("interleaved", "half")
GATED = ("swiglu",)  # what has a second matrix beside w_1, and multiplies by what this makes
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", *GATED)
BIASES = ("attention", "feed_forward", "output")


@dataclass(frozen=True)
class Config:
    """Sizes and choices of an encoder-decoder or of a decoder stack.

    d_model       width of every token's row
    n_heads       query heads; d_k and d_v default to d_model / n_heads
    d_ff          inner width of the feed-forward network
    n_layers      layers on each side (encoder-decoder) or blocks (decoder stack)
    source_vocab  rows of the source embedding; the decoder stack does not use it
    target_vocab  rows of the target embedding and columns of the output layer
    n_kv_heads    key-value heads, a divisor of n_heads (grouped-query attention); n_heads unless given
    norm          "post": LN(x + f(x)), the 2017 paper; "pre": x + f(norm(x))
    norm_kind     "layer" or "rms"
    eps           the ε inside the root of every norm; 0 is allowed, and then a constant row is an error
    positions     "sinusoidal" or "learned" (added to the embedding), "rope" (rotates queries and keys) or "none"; what is learned is a table of
                  max_length rows, where any fixed one can stand too (tensor2tensor's sines, the slowest of which is 1/10000)
    pairing       pair i of sine and cosine, or of what rope rotates: coordinates (2i, 2i + 1), "interleaved", or (i, i + d/2), "half"
    activation    "relu", "gelu" (exact), "gelu_tanh" or "swiglu" (adds a gate matrix w_3)
    biases        which of "attention", "feed_forward" and "output" have biases
    scaled        the embedding is multiplied by √d_model, as in the 2017 paper
    tied          the output layer is the target embedding, transposed
    shared        source and target are looked up in one table, "embedding"; the decoder stack has but one
    max_length    longest sequence accepted; None for no limit

    Raises ValueError naming the field, what it was and what it must be.
    """

    d_model: int
    n_heads: int
    d_ff: int
    n_layers: int
    source_vocab: int
    target_vocab: int
    d_k: int | None = None
    d_v: int | None = None
    n_kv_heads: int | None = None
    norm: str = "post"
    norm_kind: str = "layer"
    eps: float = 1e-5
    positions: str = "sinusoidal"
    activation: str = "relu"
    tied: bool = False
    max_length: int | None = None
    biases: tuple[str, ...] = ("feed_forward", "output")
    scaled: bool = True
    pairing: str = "interleaved"
    shared: bool = False

    def __post_init__(self):
        for name in ("d_model", "n_heads", "d_ff", "n_layers", "source_vocab", "target_vocab"):
            _positive_integer(name, getattr(self, name))
        for name in ("d_k", "d_v"):
            if getattr(self, name) is None:
                if self.d_model % self.n_heads:
                    raise ValueError(
                        f"d_model was {self.d_model}, which n_heads = {self.n_heads} does not divide; "
                        f"it must be a multiple of n_heads, or {name} must be given"
                    )
                object.__setattr__(self, name, self.d_model // self.n_heads)
            _positive_integer(name, getattr(self, name))
        if self.n_kv_heads is None:
            object.__setattr__(self, "n_kv_heads", self.n_heads)
        _positive_integer("n_kv_heads", self.n_kv_heads)
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"n_kv_heads was {self.n_kv_heads}; it must divide n_heads = {self.n_heads}")
        if self.max_length is not None:
            _positive_integer("max_length", self.max_length)
        _one_of("norm", self.norm, NORMS)
        _one_of("norm_kind", self.norm_kind, NORM_KINDS)
        _one_of("positions", self.positions, POSITIONS)
        _one_of("activation", self.activation, ACTIVATIONS)
        _one_of("pairing", self.pairing, PAIRINGS)
        if not isinstance(self.biases, (tuple, list)) or not all(isinstance(name, str) and name in BIASES for name in self.biases):
            raise ValueError(f"biases was {self.biases!r}; it must be a tuple or a list of some of {', '.join(map(repr, BIASES))}")
        object.__setattr__(self, "biases", tuple(name for name in BIASES if name in self.biases))
        for name in ("tied", "scaled", "shared"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} was {getattr(self, name)!r}; it must be True or False")
        if self.shared and self.source_vocab != self.target_vocab:
            raise ValueError(f"source_vocab was {self.source_vocab}; with a shared table it must be target_vocab, {self.target_vocab}")
        if not isinstance(self.eps, Real) or not 0 <= self.eps < float("inf"):  # also refuses NaN
            raise ValueError(f"eps was {self.eps!r}; it must be a finite number of at least 0")
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"d_model was {self.d_model}; with sinusoidal positions it must be even (sine and cosine in pairs)")
        if self.positions == "learned" and self.max_length is None:
            raise ValueError("max_length was None; with learned positions it must be given, as the rows of their table")
        if self.positions == "rope" and self.d_k % 2:
            raise ValueError(f"d_k was {self.d_k}; with rope it must be even (coordinates rotate in pairs)")

    @property
    def norm_position(self) -> NormPosition:
        """Where the norms of a decoder stack stand."""
        return NORMS[self.norm]

    @property
    def tables(self) -> tuple[str, str]:
        """The parameters in which the encoder-decoder looks up its source and its target."""
        return ("embedding", "embedding") if self.shared else ("source_embedding", "target_embedding")

    @property
    def gated(self) -> bool:
        """Whether the feed-forward network has a gate."""
        return self.activation in GATED


def _positive_integer(name, value):
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
        raise ValueError(f"{name} was {value!r}; it must be a whole number of at least 1")


def _one_of(name, value, choices):
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} was {value!r}; it must be one of {', '.join(map(repr, choices))}")
