"""Questions to the live step: each with its own worked example, one closed prediction, and a meter of its own.

On `document` the loss cannot see the scale, the mask or most residuals; on `lively` it moves, but up or down by accident. So the meter
is what a part is for: a weight row, who can see whom, what reaches the embedding, which gradients vanish.

The numbers that the page's are compared with are computed when the data is written: by the package itself where its Config or its
arguments have the option, otherwise by the stored formulas, whose gradients the tests hold against central differences.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from .. import numpy as bn
from .. import toy
from ..toy import Case
from .formulas import Arrays
from .step import RESIDUALS, Switches, leaves, recorded, run, weight_axes

RATES = {"document": 0.01, "exact": 0.01, "lively": 0.001}  # `lively` gets worse from 0.002 on
WHOLE = tuple(f"d:{name}" for name in weight_axes())
TINY = 1e-13  # below it a gradient is rounding: its terms cancel


@dataclass(frozen=True)
class Meter:
    """What is read off: one number of a stage, or of several stages their length, the largest entry's size, or how many entries are 0."""

    label: str
    stages: tuple[str, ...]
    index: tuple[int, ...] | None = None
    kind: str = "number"

    def settings(self) -> dict:
        """What the page's script needs."""
        return {"label": self.label, "kind": self.kind, "stages": self.stages, "index": self.index}

    def read(self, values: Arrays, after: float) -> float:
        """after is the loss after Adam's step."""
        if self.kind == "after":
            return after
        if self.kind == "promise":
            return float(values["loss"] - values["lr"] * sum(np.abs(values[name]).sum() for name in WHOLE))
        if self.kind == "number":
            value = values[self.stages[0]][self.index]
            return float(-np.log(value) if self.label.startswith("−ln") else value)
        entries = np.abs(np.concatenate([values[name].ravel() for name in self.stages]))
        return {"length": lambda: float(np.linalg.norm(entries)), "largest": lambda: float(entries.max()), "zeros": lambda: int((entries < TINY).sum())}[
            self.kind
        ]()


@dataclass(frozen=True)
class Variant:
    """One setting: a worked example as it is, changed, or with a part switched off; edits replaces single leaves."""

    name: str
    toy: str
    case: Case
    lr: float
    switches: Switches | None = None
    edits: dict = field(default_factory=dict)

    @property
    def by_package(self) -> bool:
        """Whether the package itself can run this setting."""
        return self.switches is None and not self.edits

    def values(self) -> Arrays:
        """Every number of the setting, by the package where it can, otherwise by the stored formulas."""
        given = {name: np.asarray(value, dtype=float) for name, value in (leaves(self.case, self.lr) | self.edits).items()}
        return (recorded(self.case, self.lr) if self.by_package else run(self.case, self.lr, self.switches or Switches(), self.edits)) | given

    def after(self, values: Arrays) -> float:
        """The loss after Adam's step."""
        params = {name: values[f"new:{name}"] for name in self.case.params}
        case = replace(self.case, params=params)
        return float(bn.step.run(case).loss if self.by_package else run(case, self.lr, self.switches or Switches(), self.edits)["loss"])


@dataclass(frozen=True)
class Question:
    """title, what is asked, the answers to choose from and the right one, the settings to compare, what is read off, what it teaches."""

    key: str
    title: str
    ask: str
    choices: tuple[str, ...]
    answer: int
    variants: tuple[Variant, ...]
    meters: tuple[Meter, ...]
    lesson: str
    look: tuple[str, tuple[int, ...]]  # the number that is chosen when the question opens


def questions() -> list[Question]:
    """All of them, in the order of the page: the ten first."""
    return [make() for make in _QUESTIONS]


def _variant(name, toy_name, case=None, lr=None, switches=None, edits=None, **changes):
    base = case or getattr(toy, toy_name)()
    return Variant(name, toy_name, replace(base, **changes), RATES[toy_name] if lr is None else lr, switches, edits or {})


def _params(case, **changes):
    """A worked example with some entries of its weights replaced: name__with__dots=function of the array."""
    params = dict(case.params)
    for name, change in changes.items():
        params[name.replace("__", ".")] = change(params[name.replace("__", ".")].astype(float))
    return replace(case, params=params)


def _set(value, *place):
    def change(array):
        array = array.copy()
        array[place] = value
        return array

    return change


def _number(label, stage, *index):
    return Meter(label, (stage,), index)


LOSS = _number("loss", "loss")
P_AM = _number("p(am)", "probabilities", 1, 2)
GRADIENT = Meter("length of the whole gradient", WHOLE, kind="length")
ZEROS = Meter("gradients that are 0, of 428", WHOLE, kind="zeros")


def _another_word():
    words = toy.TARGET_NAMES
    variants = [_variant(f"ask for {words[k]}", "document", targets=np.array([[1, k]])) for k in (2, 0, 1, 3)]
    meters = [LOSS, *(_number(f"dz[{word}]", "d:logits", 1, k) for k, word in enumerate(words))]
    return Question(
        "word", "Ask for another word", "The step wants am. Suppose it wanted <bos> instead: which gradients at the logits change their sign?",
        ("none of the four", "only the one of <bos>", "those of <bos> and am", "all four"), 2, tuple(variants), tuple(meters),
        "The probabilities stay, since nothing before the loss knows what is wanted. dz = p − q is below 0 for the wanted word alone: the step "
        "pulls that logit up and pushes the three others down.", ("d:logits", (1, 0)),
    )  # fmt: skip


def _one_weight():
    variants = [_variant(f"W_out[0, <bos>] = {x}", "document", _params(toy.document(), output__w=_set(x, 0, 0))) for x in (0, 1, 2, 3)]
    return Question(
        "push", "Push one weight by hand", "At W_out[0, <bos>] = 1 the loss rises by 0.51 for each unit that the weight rises. How fast does it rise at 3?",
        ("slower", "as fast", "faster"), 2, tuple(variants), (LOSS, _number("its gradient", "d:output.w", 0, 0), _number("p(<bos>)", "probabilities", 1, 0)),
        "The gradient is the slope where the weight stands, and the loss is a curve: the more <bos> is believed, the more a further push costs. "
        "It can never be steeper than 1 here, since p − q cannot.", ("output.w", (0, 0)),
    )  # fmt: skip


def _trust():
    rates = [("document", rate) for rate in (0.001, 0.01, 0.1, 1.0)] + [("lively", rate) for rate in (0.001, 0.002, 0.01)]
    variants = [_variant(f"{name}, lr {rate:g}", name, lr=rate) for name, rate in rates]
    return Question(
        "trust", "How far may one trust a gradient?", "document takes one step at lr = 0.1, more than a hundred thousand times the paper's first. "
        "What becomes of the loss?",
        ("it falls by what the gradient promised", "it falls, but by less", "it rises"), 1, tuple(variants),
        (LOSS, Meter("promised", (), kind="promise"), Meter("loss after the step", (), kind="after")),
        "The promise L − lr·Σ|g| holds along the tangent. A small step keeps to it; a large one leaves it, and a loss cannot fall below the entropy of "
        "what is wanted. lively bends so much that 0.002 already makes it worse.", ("loss", ()),
    )  # fmt: skip


def _look_ahead():
    words, variants = toy.TARGET_NAMES, []
    for mask in (True, False):
        for k in (1, 2, 3):
            edits = {"scored": np.array([1.0, 0.0])} | ({} if mask else {"causal_mask": np.ones((2, 2))})
            name = f"{'mask' if mask else 'no mask'}, {words[k]} second"
            variants.append(_variant(name, "lively", edits=edits, decoder_input=np.array([[0, k]])))
    meters = [_number("logit of <bos> after the first word", "logits", 0, 0)]
    meters += [_number(f"dY[second word, {c}]", "d:decoder.input", 1, c) for c in range(4)]
    return Question(
        "ahead", "Let it look ahead", "Only what follows the first word is scored. With the mask in place, does the second word change the logits "
        "after the first?",
        ("yes", "no"), 1, tuple(variants), tuple(meters),
        "With the mask the first row is the same whatever comes second, and the gradient at the second word is exactly 0: what was not seen gets no "
        "blame. Without it both move, and the model can copy the answer that it is to predict.", ("d:decoder.input", (1, 0)),
    )  # fmt: skip


def _too_sure():
    case, n = toy.document(), "decoder.0.cross_attention"
    variants = [_variant("as printed", "document"), _variant("without the scale", "document", edits={"root_d_k": np.array(1.0)})]
    for factor in (2, 5, 10):
        params = {name: value * factor if name.endswith("attention.w_q") else value for name, value in case.params.items()}
        variants.append(_variant(f"every W_Q × {factor}", "document", params=params))
    meters = [_number("A[<bos>, je], cross-attention", f"{n}.weights", 0, 0, 0), Meter("largest |dW_K|, cross-attention", (f"d:{n}.w_k",), kind="largest"),
              Meter("largest |dW_Q|, encoder", ("d:encoder.0.self_attention.w_q",), kind="largest"), LOSS]  # fmt: skip
    return Question(
        "sure", "Be too sure", "Every W_Q ten times as large makes every score ten times as large. What happens to the gradient of cross-attention's W_K?",
        ("it is ten times as large", "it stays about the same", "next to nothing is left of it"), 2, tuple(variants), tuple(meters),
        "A softmax that is sure hardly answers to its scores: A·(1 − A) goes to 0, and with it everything behind the scores stops learning, while the "
        "loss does not move in 15 digits. That is what dividing by √dₖ is for; at dₖ = 2 the root itself does little.", (f"{n}.weights", (0, 0, 0)),
    )  # fmt: skip


def _no_residuals():
    variants = [_variant("as it is", "lively"), _variant("without residuals", "lively", switches=Switches(residuals=()))]
    meters = [Meter("length of dE, source", ("d:source_embedding",), kind="length"), Meter("length of dE, target", ("d:target_embedding",), kind="length"),
              Meter("length of dW_out", ("d:output.w",), kind="length")]  # fmt: skip
    return Question(
        "road", "Take the road away", "All five residuals are removed. How much of the gradient still reaches the source table?",
        ("more than before", "about half", "less than a thousandth"), 2, tuple(variants), tuple(meters),
        "Without the way straight past, the gradient has to pass through every sublayer, and each passes little. The output layer notices nothing. "
        "One residual alone would mislead: without the encoder's first the gradient of the source table even grows.", ("d:source_embedding", (0, 0)),
    )  # fmt: skip


def _no_norms():
    variants = []
    for name in ("document", "lively"):
        variants += [_variant(name, name), _variant(f"{name} without norms", name, switches=Switches(norms=False))]
    return Question(
        "norms", "Take the norms away", "All five norms hand on what they get. How long is the whole gradient of document then (now 2.8)?",
        ("shorter", "about as long", "about ten times as long"), 2, tuple(variants),
        (Meter("largest |logit|", ("logits",), kind="largest"), LOSS, GRADIENT),
        "A norm keeps rows at one size whatever the sublayers add. Without it they grow from layer to layer, the logits with them, and the step is "
        "dominated by whatever happens to be large.", ("logits", (1, 0)),
    )  # fmt: skip


def _swap():
    lively = toy.lively()
    none = replace(lively, config=replace(lively.config, positions="none"))
    variants = []
    for label, case in (("with positions", lively), ("without positions", none)):
        for order, source in (("je suis je", [[0, 1, 0]]), ("suis je je", [[1, 0, 0]])):
            variants.append(_variant(f"{order}, {label}", "lively", case, source=np.array(source)))
    meters = [LOSS, _number("ENC[first word, 0]", "encoder.memory", 0, 0), _number("ENC[second word, 0]", "encoder.memory", 1, 0)]
    return Question(
        "order", "Swap two source words", "No positions are added, and the first two source words change places. Does the loss change?", ("yes", "no"), 1,
        tuple(variants), tuple(meters),
        "Attention asks what stands there, not where. Without positions the memory's rows change places and whoever reads them adds up the same "
        "numbers: the loss is equal to the last digit. Only the added positions tell je suis from suis je.", ("encoder.memory", (0, 0)),
    )  # fmt: skip


def _twice():
    variants = [_variant("je suis je", "lively"), _variant("je suis suis", "lively", source=np.array([[0, 1, 1]]))]
    meters = [_number(f"dE[je, {c}]", "d:source_embedding", 0, c) for c in range(4)]
    meters += [_number(f"dX[{place}, {c}]", "d:encoder.input", at, c) for at, place in ((0, "first word"), (2, "third word")) for c in (0, 1)]
    return Question(
        "twice", "A word that stands twice", "je stands in the first place and in the third. What is the gradient of its row in the table?",
        ("the mean of both places, times √d", "the sum of both places, times √d", "that of the last place, times √d"), 1, tuple(variants), tuple(meters),
        "Two uses, two terms. In column 0 they nearly cancel: the third place wants what the first does not. Code that assigns instead of adding "
        "keeps the last one only, and no error is raised.", ("d:source_embedding", (0, 0)),
    )  # fmt: skip


def _all_equal():
    case = toy.document()
    params = {name: np.ones(v.shape) if "gamma" in name else np.zeros(v.shape) if v.ndim == 1 else np.full(v.shape, 0.5) for name, v in case.params.items()}
    variants = [_variant("as printed, ε 1e-5", "document", config=replace(case.config, eps=1e-5)),
                _variant("all weights 0.5, ε 1e-5", "document", config=replace(case.config, eps=1e-5), params=params)]  # fmt: skip
    return Question(
        "equal", "Start with all weights equal", "Every matrix holds 0.5 throughout. Of 428 weights, how many have a gradient?", ("none", "4", "all 428"), 1,
        tuple(variants), (ZEROS, P_AM, LOSS),
        "Every row is constant, the norms make 0 of it, and only the four output biases learn. Trained on, the loss still falls to its floor, by "
        "the biases alone: a falling loss proves nothing.", ("d:output.b", (0,)),
    )  # fmt: skip


def _zeros():
    variants = [_variant("as printed", "document"), _variant("without ReLU", "document", switches=Switches(relu=False)),
                _variant("both words scored", "document", reduction="mean")]  # fmt: skip
    return Question(
        "zero", "Why is this gradient zero?", "document has 428 weights. How many of their gradients are 0?", ("none", "about 20", "about 90"), 2,
        tuple(variants), (ZEROS, GRADIENT),
        "Six causes: a word never looked up, a masked place, a place not scored, a closed gate, a factor that is 0, terms that cancel. Click any 0, "
        "and the card says which one it is and leads on.", ("d:decoder.0.feed_forward.w_1", (0, 1)),
    )  # fmt: skip


def _smoothing():
    variants = [_variant(f"smoothing {x:g}", "document", smoothing=x) for x in (0.1, 0.0, 0.3)]
    return Question(
        "smooth", "No smoothing", "Without label smoothing, is the pull on the logit of am stronger or weaker?", ("stronger", "as strong", "weaker"), 0,
        tuple(variants), (LOSS, Meter("−ln p(am)", ("probabilities",), (1, 2)), _number("dz[am]", "d:logits", 1, 2), _number("dz[<bos>]", "d:logits", 1, 0)),
        "q(am) goes from 0.925 to 1, so p − q is further below 0. With smoothing the pull ends where p(am) = 0.925; without it never. Losses with "
        "different smoothing are not comparable; −ln p(am) is.", ("q", (1, 2)),
    )  # fmt: skip


def _constant_row():
    case, kept = toy.document(), tuple(name for name in RESIDUALS if name != "decoder.0.residual_1")
    variants = [_variant("as printed, ε 1e-5", "document", config=replace(case.config, eps=1e-5))]
    for eps in (1e-9, 1e-5, 0.1):
        variants.append(_variant(f"no first residual, ε {eps:g}", "document", config=replace(case.config, eps=eps), switches=Switches(residuals=kept)))
    return Question(
        "eps", "What ε is for", "Without the decoder's first residual a row that enters a norm is constant. At ε = 1e-9, how long is the whole gradient?",
        ("0: a constant row has no direction", "about as long as before", "more than a million times as long"), 2, tuple(variants),
        (_number("σ² of the row", "decoder.0.norm_1.var", 1), LOSS, GRADIENT),
        "The forward pass hides it: 0 divided by a small root is 0. Backward the same root divides a gradient that is not 0. At ε = 0 there is no number "
        "at all, and the live step refuses it.", ("d:decoder.0.residual_1", (1, 0)),
    )  # fmt: skip


def _one_head():
    case, n = toy.document(), "decoder.0.cross_attention"
    variants = [
        _variant("two heads", "document"),
        _variant("one head of width 4", "document", config=replace(case.config, n_heads=1, n_kv_heads=1, d_k=4, d_v=4)),
    ]
    meters = [_number("A[<bos>, je], head 1", f"{n}.weights", 0, 0, 0), Meter("largest |dW_V|", (f"d:{n}.w_v",), kind="largest"), LOSS]
    return Question(
        "heads", "One head instead of two", "The two heads of cross-attention look at opposite words. Merged into one of twice the width, what do they see?",
        ("the first head's word", "both words alike", "the second head's word"), 1, tuple(variants), tuple(meters),
        "Their scores add, and cancel: 0.5 and 0.5, and nothing is left for W_V to learn. Two softmaxes can look two ways at once, one cannot.",
        (f"{n}.weights", (0, 0, 0)),
    )  # fmt: skip


def _positions():
    n = "decoder.0.cross_attention"
    variants = [_variant("document: no positions, ε 0", "document"), _variant("exact: positions, ε 1e-5", "exact")]
    meters = [
        LOSS,
        _number("A[<bos>, je], cross-attention", f"{n}.weights", 0, 0, 0),
        Meter("largest |dW_Q|, cross-attention", (f"d:{n}.w_q",), kind="largest"),
    ]
    return Question(
        "positions", "Add the positions", "The document leaves the positions out. With them, the same weights: what becomes of cross-attention?",
        ("it looks at one word only", "it looks at both alike", "it does not change"), 1, tuple(variants), tuple(meters),
        "With the positions both rows of the memory point the same way, so no query can tell them apart: a uniform softmax, and W_Q gets no gradient. The "
        "document's rounding hides that its example rests on what it left out.", (f"{n}.weights", (0, 0, 0)),
    )  # fmt: skip


def _padding():
    variants = [_variant("je suis je", "lively"), _variant("je suis, and padding", "lively", source_lengths=np.array([2]))]
    meters = [LOSS, _number("A[<bos>, third], cross-attention", "decoder.0.cross_attention.weights", 0, 0, 2)]
    meters += [_number(f"dX[third word, {c}]", "d:encoder.input", 2, c) for c in range(4)]
    return Question(
        "padding", "A padded word", "The third source word is padding and masked everywhere. What is the gradient of its row?",
        ("small", "exactly 0", "the same as before"), 1, tuple(variants), tuple(meters),
        "Nobody looks at it, so nothing that it is can matter: exactly 0, not almost. It is a test that every implementation should have.",
        ("d:encoder.input", (2, 0)),
    )  # fmt: skip


_QUESTIONS = (
    _another_word, _one_weight, _trust, _look_ahead, _too_sure, _no_residuals, _no_norms, _swap, _twice, _all_equal,
    _zeros, _smoothing, _constant_row, _one_head, _positions, _padding,
)  # fmt: skip
