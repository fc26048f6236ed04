"""The training loop: one for a processor, a GPU, and many processes under torchrun."""

import contextlib
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from tqdm import tqdm

from byhand.torch.loss import cross_entropy
from byhand.torch.optimizer import adam, noam
from byhand.torch.transformer import Transformer

from . import checkpoint, parallel
from .data import Example, Pair, batch, batches, examples, pairs
from .evaluate import Score, average, score, tensors
from .settings import Settings, differences, from_dict
from .vocabulary import Vocabulary

LOG, MODEL, CHECKPOINTS = "log.jsonl", "model", "checkpoints"


class Corpus(NamedTuple):
    """What is trained on and validated with, as numbers, and the word pieces behind them."""

    source: Vocabulary
    target: Vocabulary
    train: list[Example]
    validation: list[Example]
    validation_pairs: list[Pair]


def corpus(settings: Settings) -> Corpus:
    """The sentences of the settings; the vocabularies come from the training part alone."""
    data, longest = settings.data, settings.model.max_length
    train, validation = pairs("train", data.train, data.seed), pairs("validation", data.validation, data.seed)
    source, target = (Vocabulary.train((getattr(one, side) for one in train), data.vocabulary) for side in ("source", "target"))
    return Corpus(source, target, examples(train, source, target, longest), examples(validation, source, target, longest), validation)


class Result(NamedTuple):
    """Where a run stands: its last step, why it ended, and its log, a dict a line."""

    step: int
    why: str
    log: list[dict]
    module: Transformer


def train(
    settings: Settings,
    folder: str | Path,
    resume: bool = False,
    device: str | None = None,
    stop_after: int | None = None,
    progress: bool = True,
    say: Callable[[str], None] = print,
    make: Callable[..., Transformer] = Transformer,
) -> Result:
    """Train until the settings' steps are done, or validation has stopped improving; everything that is kept lies in `folder`.

    resume: go on from the newest whole checkpoint in the folder, on any number of processes. stop_after: leave off, with a checkpoint, after
    that step. make(config, seed) makes the model (for experiments with a changed one).

    Raises ValueError for settings that cannot be meant, for a folder that holds another run or, without resume, any run; FloatingPointError for
    a loss that is not finite; RuntimeError for a parameter that no gradient reaches, and for a run after which the loss is not below its start.
    """
    with parallel.team(device) as team:
        return train_with(team, settings, folder, resume, stop_after, progress, say, make)


def train_with(
    team: parallel.Team,
    settings: Settings,
    folder: str | Path,
    resume: bool = False,
    stop_after: int | None = None,
    progress: bool = True,
    say: Callable[[str], None] = print,
    make: Callable[..., Transformer] = Transformer,
) -> Result:
    """`train` with a team that stands already; all its processes call it."""
    folder, first = Path(folder), team.rank == 0
    say = say if first else lambda text: None
    before = _before(folder, settings, resume, say)
    team.barrier()  # nobody writes before all have looked
    run = _Run(settings, folder, team, corpus(settings), make, before, say)
    if first:
        run.begin()
    last = settings.training.steps if stop_after is None else min(stop_after, settings.training.steps)
    with tqdm(total=settings.training.steps, initial=run.step, disable=not (first and progress), unit="step") as bar:
        why = run.go(last, bar)
    if why != "left off":
        run.finish(why)
    return Result(run.step, why, run.log, run.module)


def _before(folder, settings, resume, say):
    """The checkpoint to go on from, or None."""
    saved = folder / CHECKPOINTS
    if not resume:
        if saved.exists() and checkpoint.found(saved):
            raise ValueError(f"{folder} already holds a run; go on with it (--resume) or choose another folder (--out)")
        return None
    last = checkpoint.newest(saved, say)
    if last is None:
        say(f"nothing to resume in {folder}; starting at step 1")
        return None
    try:
        other = differences(settings, from_dict(last.state["settings"]))
    except (ValueError, KeyError) as error:
        raise ValueError(f"{last.path} holds no settings of this program: {error}") from error
    if other:
        raise ValueError(f"{last.path} is of another configuration: {'; '.join(other)}")
    say(f"going on from {last.path}")
    return last


class _Run:
    """A run between two steps: model, optimizer, step count and log."""

    def __init__(self, settings, folder, team, material, make, before, say):
        self.settings, self.folder, self.team, self.material, self.say = settings, folder, team, material, say
        self.config = settings.model.config(len(material.source), len(material.target))
        self.module = make(self.config, settings.model.seed).to(team.device)
        self.plain = None  # a whole copy for validation, where the module itself is sharded
        self.make = make
        model = parallel.wrap(self.module, settings.training.parallel, team)
        self.model = torch.compile(model) if settings.training.compile else model
        self.optimizer = adam(self.module.parameters())  # after sharding, which replaces the parameters
        self.step, self.log = 0, []
        if before is not None:
            self._restore(before)
        self.batches = batches(material.train, settings.data.batch, settings.data.seed, done=self.step)

    # ---- one step ----

    def go(self, last, bar) -> str:
        """Steps until `last`, with a checkpoint every so often; returns why it ended."""
        training, tokens, since = self.settings.training, 0, time.perf_counter()
        while self.step < last:
            epoch, places = next(self.batches)
            line = self._update(places) | {"epoch": epoch}
            self.log.append(line)
            tokens += line["tokens"]
            bar.update()
            if self.step % training.checkpoint_every == 0 or self.step == last:
                self.log[-1]["tokens per second"] = round(tokens / (time.perf_counter() - since), 1)
                self.log[-1]["validation"] = self._validate(parallel.weights(self.module)).means()
                self._save()
                tokens, since = 0, time.perf_counter()
                bar.set_postfix({"loss": f"{line['loss']:.3f}"} | {name: f"{value:.3f}" for name, value in line["validation"].items()})
                if self._stale():
                    return "no better"
        return "done" if self.step == training.steps else "left off"

    def _update(self, places) -> dict:
        """One step of Adam on one batch, shared out over processes and microbatches."""
        training, team, step = self.settings.training, self.team, self.step + 1
        for group in self.optimizer.param_groups:  # the rate is a function of the step, so there is nothing to restore when a run goes on
            group["lr"] = training.rate * noam(step, self.config.d_model, training.warmup)
        used = self.optimizer.param_groups[0]["lr"]
        # Sums over the own tokens, divided by the tokens of all: equal weight for each token, however they are shared out.
        # DDP and FSDP take the mean over processes, which the factor `world` undoes.
        tokens = sum(len(self.material.train[place].target) + 1 for place in places)
        pieces = np.array_split(places, min(training.microbatches, len(places)))
        loss = 0.0
        self.optimizer.zero_grad()
        for number, piece in enumerate(pieces):
            own = piece[team.rank :: team.world]
            # A process without a share runs along with a sentence that counts 0, since all must exchange as often.
            some = batch([self.material.train[place] for place in (own if len(own) else piece[:1])])
            with parallel.without_sync(self.model, last=number == len(pieces) - 1):
                part = self._loss(tensors(some, team.device)) * (1.0 if len(own) else 0.0)
                (part * (team.world / tokens)).backward()
            loss += part.item()
        loss = team.sums(loss)[0] / tokens
        if not math.isfinite(loss):
            raise FloatingPointError(f"the loss of step {step} was {loss}; the checkpoint before it is untouched")
        if step == 1:
            self._check_gradients()
        norm = parallel.whole(torch.nn.utils.clip_grad_norm_(self.module.parameters(), training.clip or math.inf)).item()
        self.optimizer.step()
        self.step = step
        return {"step": step, "loss": loss, "rate": used, "norm": norm, "tokens": tokens}

    def _loss(self, some):
        device, half = self.team.device.type, self.settings.training.precision == "bf16"
        with torch.autocast(device, torch.bfloat16) if half else contextlib.nullcontext():
            logits = self.model(some["source"], some["decoder_input"], some["source_lengths"], some["target_lengths"])
        smoothing = self.settings.training.smoothing
        return cross_entropy(logits.float(), some["targets"], smoothing, lengths=some["target_lengths"], reduction="sum")

    def _check_gradients(self):
        """Before the first update each parameter must have got a gradient that is not 0 everywhere."""
        without = [name for name, one in self.module.named_parameters() if one.grad is None or not bool(parallel.whole(one.grad).abs().max() > 0)]
        if without:
            raise RuntimeError(f"no gradient reached {', '.join(without)} in the first step; these would stay as they are")

    # ---- between steps ----

    def _validate(self, weights, sentences=None) -> Score:
        """The validation part, shared out over the processes; each scores its share with a whole copy of the model."""
        if self.plain is None:
            self.plain = self.make(self.config, self.settings.model.seed).to(self.team.device)
        self.plain.load_state_dict(weights)
        share = (self.material.validation if sentences is None else sentences)[self.team.rank :: self.team.world]
        mine = score(self.plain, share) if share else Score(0.0, 0, 0, 0, 0)
        return Score(*self.team.sums(*mine))

    def _stale(self) -> bool:
        """Whether the last `patience` validation losses are all above the best one before them."""
        patience = self.settings.training.patience
        losses = [line["validation"]["loss"] for line in self.log if "validation" in line]
        return patience is not None and len(losses) > patience and min(losses[-patience:]) >= min(losses[:-patience])

    def _save(self):
        weights, moments = parallel.weights(self.module), parallel.moments(self.module, self.optimizer)
        for rank, state in enumerate(self.team.gather(_random_state(self.team.device))):
            moments[f"random.{rank}"] = state
        if self.team.rank == 0:
            saved = self.folder / CHECKPOINTS
            state = {"settings": self.settings.as_dict(), "world": self.team.world, "log": self.log}
            checkpoint.save(saved, self.step, weights, moments, state)
            checkpoint.prune(saved, max(self.settings.training.average, 2))
            self._write_log()
        self.team.barrier()

    def _restore(self, before):
        random = {name: value for name, value in before.optimizer.items() if name.startswith("random.")}
        parallel.restore(self.module, self.optimizer, before.weights, {k: v for k, v in before.optimizer.items() if k not in random})
        own = random.get(f"random.{self.team.rank}")
        if own is None:
            self.say(f"the checkpoint has no random state of process {self.team.rank}; it was saved on {before.state['world']}")
        else:
            _set_random_state(self.team.device, own)
        self.step, self.log = before.step, before.state["log"]

    def begin(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.material.source.save(self.folder / "source.json")
        self.material.target.save(self.folder / "target.json")
        self._write_log()

    def _write_log(self):
        beside = self.folder / f".{LOG}"
        beside.write_text("".join(json.dumps(line) + "\n" for line in self.log), encoding="utf-8")
        os.replace(beside, self.folder / LOG)

    def finish(self, why):
        """The mean of the last checkpoints becomes the model; fails where training did not bring the loss down."""
        from .model import save

        kept = checkpoint.found(self.folder / CHECKPOINTS)[-self.settings.training.average :]
        weights = average(checkpoint.load(path).weights for path in kept)
        means = self._validate(weights).means()
        self.say(f"{why} after step {self.step}; mean of {len(kept)} checkpoints: " + ", ".join(f"{k} {v:.4f}" for k, v in means.items()))
        first, last = self.log[0]["loss"], self.log[-1]["loss"]
        if self.team.rank == 0:
            save(self.folder / MODEL, weights, self.config, self.material.source, self.material.target)
        self.team.barrier()
        if not last < first:
            raise RuntimeError(f"the loss was {first:.4f} in step 1 and {last:.4f} in step {self.step}; nothing was learnt")


def _random_state(device):
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _set_random_state(device, state):
    try:
        torch.cuda.set_rng_state(state, device) if device.type == "cuda" else torch.set_rng_state(state)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"the checkpoint's random state does not fit this device: {error}") from error
