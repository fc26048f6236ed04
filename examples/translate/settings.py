"""What a training run is told: one YAML file, every key known and given."""

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from byhand import Config

from .data import KINDS


@dataclass(frozen=True)
class Data:
    """How many different values of each kind are trained on; batches hold `batch` sentences, in an order that follows from `seed`."""

    train: dict[str, int]
    validation: dict[str, int]
    seed: int
    vocabulary: int  # pieces of each language, at most
    batch: int


@dataclass(frozen=True)
class Model:
    """Sizes of the encoder-decoder; the vocabularies give the rest."""

    d_model: int
    n_heads: int
    d_ff: int
    n_layers: int
    positions: str
    tied: bool
    max_length: int
    seed: int

    def config(self, source_vocab: int, target_vocab: int) -> Config:
        return Config(
            self.d_model, self.n_heads, self.d_ff, self.n_layers, source_vocab, target_vocab,
            positions=self.positions, tied=self.tied, max_length=self.max_length,
        )  # fmt: skip


@dataclass(frozen=True)
class Training:
    """The paper's loss and schedule, and how the work is done.

    rate         the paper's schedule is multiplied by it
    clip         the gradient's norm is cut to it; null for no limit
    microbatches each batch is worked through in so many pieces, one after another
    average      the model at the end is the mean of so many last checkpoints
    patience     stop once so many checkpoints in a row have not improved the validation loss; null: never
    precision    "float32", or "bf16" for bfloat16 by autocast
    compile      run through torch.compile
    parallel     with several processes: "ddp" (each holds the model) or "fsdp" (each holds a share)
    """

    steps: int
    warmup: int
    rate: float
    smoothing: float
    clip: float | None
    microbatches: int
    checkpoint_every: int
    average: int
    patience: int | None
    precision: str = "float32"
    compile: bool = False
    parallel: str = "ddp"


MAY_CHANGE = {"steps", "checkpoint_every", "average", "patience", "compile", "parallel", "microbatches"}  # the mathematics stays the same


@dataclass(frozen=True)
class Settings:
    data: Data
    model: Model
    training: Training = field()

    def as_dict(self) -> dict:
        return dataclasses.asdict(self)


def load(path: str | Path) -> Settings:
    """The settings in a YAML file. Raises ValueError naming the file and the key."""
    try:
        read = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    try:
        return from_dict(read)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def from_dict(read: dict) -> Settings:
    """Raises ValueError for a key that is unknown, missing, or of a value that cannot be meant."""
    parts = {"data": Data, "model": Model, "training": Training}
    _check_keys("settings", read, parts, parts)
    made = {}
    for name, kind in parts.items():
        fields = {one.name: one for one in dataclasses.fields(kind)}
        needed = [key for key, one in fields.items() if one.default is dataclasses.MISSING]
        _check_keys(name, read[name], fields, needed)
        made[name] = kind(**read[name])
    settings = Settings(**made)
    _check(settings)
    return settings


def _check_keys(where, read, known, needed):
    if not isinstance(read, dict):
        raise ValueError(f"{where} was {read!r}; it must be keys with values")
    for key in read:
        if key not in known:
            raise ValueError(f"{where} had the unknown key {key!r}; known are {', '.join(known)}")
    for key in needed:
        if key not in read:
            raise ValueError(f"{where} lacked the key {key!r}")


def _check(settings):
    data, model, training = settings.data, settings.model, settings.training
    for name in ("train", "validation"):
        counts = getattr(data, name)
        if not isinstance(counts, dict) or not counts or not all(kind in KINDS for kind in counts):
            raise ValueError(f"data.{name} was {counts!r}; it must give a count for some of {', '.join(map(repr, KINDS))}")
        for kind, count in counts.items():
            _whole(f"data.{name}[{kind!r}]", count, 1)
    for where, part, names, least in (
        ("data", data, ("vocabulary", "batch"), 1),
        ("data", data, ("seed",), 0),
        ("model", model, ("max_length",), 2),
        ("model", model, ("seed",), 0),
        ("training", training, ("steps", "warmup", "microbatches", "checkpoint_every", "average"), 1),
    ):
        for name in names:
            _whole(f"{where}.{name}", getattr(part, name), least)
    if training.patience is not None:
        _whole("training.patience", training.patience, 1)
    _number("training.rate", training.rate, lambda x: x > 0, "above 0")
    _number("training.smoothing", training.smoothing, lambda x: 0 <= x < 1, "at least 0 and below 1")
    if training.clip is not None:
        _number("training.clip", training.clip, lambda x: x > 0, "above 0, or null for no limit")
    for name, allowed in (("precision", ("float32", "bf16")), ("parallel", ("ddp", "fsdp"))):
        if getattr(training, name) not in allowed:
            raise ValueError(f"training.{name} was {getattr(training, name)!r}; it must be {' or '.join(map(repr, allowed))}")
    if not isinstance(training.compile, bool):
        raise ValueError(f"training.compile was {training.compile!r}; it must be true or false")
    try:
        model.config(8, 8)
    except ValueError as error:
        raise ValueError(f"model.{error}") from error
    if model.positions == "rope":
        raise ValueError("model.positions was 'rope'; the encoder-decoder of 2017 takes 'sinusoidal' or 'none'")


def _whole(name, value, least):
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} was {value!r}; it must be a whole number of at least {least}")


def _number(name, value, fits, what):
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not fits(value):
        raise ValueError(f"{name} was {value!r}; it must be a finite number {what}")


def differences(one: Settings, other: Settings) -> list[str]:
    """What two settings differ in, but for what may change when a run goes on: 'model.d_model: 64, not 128'."""
    mine, theirs = one.as_dict(), other.as_dict()
    return [
        f"{part}.{key}: {value!r}, not {theirs[part][key]!r}"
        for part, keys in mine.items()
        for key, value in keys.items()
        if value != theirs[part][key] and not (part == "training" and key in MAY_CHANGE)
    ]
