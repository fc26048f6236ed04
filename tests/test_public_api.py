"""Every public function, called in every way that cannot be meant.

The functions are found by looking into the modules, and the bad calls are made from one good call of each: a new function without one turns
this red. A bad call must raise a ValueError, TypeError or IndexError that names the argument, or give what the good call gives. A shape is bad
where the annotations say so, and a gradient's always; what else an argument may be stands in ALLOWED, with the reason.
"""

import dataclasses
import gc
import inspect
import re
import sys
import types
import typing
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from jaxtyping import jaxtyped

from byhand import Config, check, toy
from byhand import numpy as bn
from byhand import torch as bt
from byhand.check import instruments
from byhand.check.exercise import Verdict
from byhand.check.report import Report
from byhand.numpy import tiled
from byhand.record import Record


@pytest.fixture(autouse=True, scope="module")
def what_is_there_already_is_not_searched():
    """kept_memory collects garbage before it counts, thousands of times here, beside what other tests have imported."""
    gc.freeze()
    yield
    gc.unfreeze()


LOOKS = {"byhand.numpy.checks", "byhand.numpy.passes", "byhand.torch.inputs"}  # what a public function looks with, and is run by


def public_functions():
    """By name, as numpy.softmax.softmax: what is defined without an underscore in a floor's modules."""
    modules = [module for package in (bn, bt) for module in vars(package).values() if inspect.ismodule(module) and module.__name__ not in LOOKS]
    modules.append(instruments)
    found = {
        f"{module.__name__}.{name}".removeprefix("byhand."): function
        for module in modules
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith(("_", "check_"))  # check_: looks themselves
    }
    offered = {f"check.{name}": thing for name, thing in vars(check).items() if inspect.isfunction(thing)}  # what the package itself offers
    return found | offered


# ---- one good call of each ----------------------------------------------------------------------

RNG = np.random.default_rng(0)
BATCH, TIME, HEADS, WIDTH, VOCAB = 2, 3, 2, 4, 7


def normal(*shape):
    return RNG.normal(size=shape)


def tensor(*shape):
    return torch.tensor(normal(*shape))


def tokens(*shape, below=VOCAB - 1):
    """Whole numbers that differ along every axis."""
    return (np.arange(np.prod(shape)).reshape(shape) * 3 + 1) % below


CONFIG = Config(d_model=WIDTH, n_heads=HEADS, d_ff=6, n_layers=2, source_vocab=5, target_vocab=VOCAB)
STACK = Config(
    d_model=WIDTH, n_heads=HEADS, n_kv_heads=1, d_ff=6, n_layers=2, source_vocab=1, target_vocab=VOCAB, norm="pre", norm_kind="rms",
    positions="rope", activation="swiglu", max_length=9,
)  # fmt: skip
LEARNED = replace(CONFIG, positions="learned", max_length=9)


def numpy_calls():
    x, w, b = normal(BATCH, TIME, WIDTH), normal(WIDTH, 6), normal(6)
    q, k, v = normal(BATCH, HEADS, TIME, WIDTH), normal(BATCH, HEADS, 5, WIDTH), normal(BATCH, HEADS, 5, 6)
    mask = RNG.random((BATCH, HEADS, TIME, 5)) > 0.3
    heads = dict(w_q=normal(WIDTH, 8), w_k=normal(WIDTH, 4), w_v=normal(WIDTH, 6), w_o=normal(12, WIDTH), n_heads=2, n_kv_heads=1)
    network = dict(w_1=normal(WIDTH, 6), b_1=b, w_2=normal(6, WIDTH), b_2=normal(WIDTH), activation="swiglu", w_3=normal(WIDTH, 6))
    lengths, positions, table = np.array([2, 3]), np.array([4, 0, 2]), normal(VOCAB, WIDTH)
    read, source, targets = tokens(BATCH, TIME), tokens(BATCH, 4, below=5), tokens(BATCH, TIME)
    scored = np.array([[True, False, True], [True, True, False]])
    params, stack = bn.transformer.init(CONFIG), bn.decoder.init(STACK)
    passed, stacked = bn.transformer.forward(params, CONFIG, source, read), bn.decoder.forward(stack, STACK, read)
    attended = bn.attention.multi_head_attention(x, normal(BATCH, 5, WIDTH), **heads)[1]
    norms = dict(gamma=normal(WIDTH), beta=normal(WIDTH), eps=1e-5)
    layers = bn.layers
    rooms = layers.Rooms(stack, STACK, "block.0", Record())
    decoder_rooms = layers.Rooms(params, CONFIG, "decoder.0", Record(), "self_attention")
    block_mask = np.ones((BATCH, 1, 1, TIME), bool)
    post = Config(**{**STACK.__dict__, "norm": "post", "norm_kind": "layer"})
    post_rooms = layers.Rooms(bn.decoder.init(post), post, "block.0", Record())
    memory = normal(BATCH, 5, WIDTH)
    named = {"w": normal(3, 2), "b": normal(2)}
    grads = {"w": normal(3, 2), "b": normal(2)}
    state = bn.optimizer.adam(named, grads)[1]
    low = dict(a=normal(WIDTH, 2), b=normal(2, 6), alpha=2.0)
    answers = dict(chosen=normal(3), rejected=normal(3))
    policy = dict(reference=np.array([0.2, 0.5, 0.3]), reward=normal(3), beta=0.5)
    stored, column = bn.quantize.quantize(w), bn.quantize.quantize(w, axis=0)
    kept = dict(stack, vector=b)
    cache = stacked.kv_cache

    def one_step(tokens, kv_cache, lengths):
        return np.ones((*tokens.shape, VOCAB)), cache

    running = tiled.online_softmax(tiled.start((BATCH, HEADS, TIME), 6, np.dtype(float)), normal(BATCH, HEADS, TIME, 5), v)
    loop = dict(read=one_step, tokens=read, n_new=2, choose=bn.sampling.greedy, lengths=lengths)
    calls = {
        "attention.attention": dict(q=q, k=k, v=v, mask=mask, causal=True, record=Record()),
        "attention.attention_mask": dict(t_q=TIME, t_k=5, mask=mask, causal=True),
        "attention.multi_head_attention": dict(
            x=x, memory=memory, **heads, mask=np.ones((BATCH, 1, TIME, 5), bool), causal=True,
            b_q=normal(8), b_k=normal(4), b_v=normal(6), b_o=normal(WIDTH), pairing="half",
        ),
        "attention.multi_head_attention_backward": dict(dy=normal(BATCH, TIME, WIDTH), cache=attended, record=Record()),
        "heads.repeat_heads": dict(x=q, shared=2),
        "heads.sum_heads": dict(dy=q, n_kv_heads=1),
        "heads.split_heads": dict(x=x, n_heads=2),
        "heads.merge_heads": dict(x=q),
        "decoder.init": dict(config=STACK, seed=1, dtype=np.dtype("float32")),
        "decoder.forward": dict(params=stack, config=STACK, tokens=read, kv_cache=cache, lengths=lengths, keep=True, record=Record()),
        "decoder.backward": dict(dlogits=normal(BATCH, TIME, VOCAB), cache=stacked.cache, record=Record()),
        "decoder.gradients": dict(dlogits=normal(BATCH, TIME, VOCAB), cache=stacked.cache),
        "decoder.generate": dict(params=stack, config=STACK, tokens=read, n_new=2, choose=bn.sampling.greedy, lengths=lengths, cached=True),
        "embedding.embedding": dict(tokens=read, table=table, scaled=False),
        "feed_forward.swiglu": dict(hidden=x, gate=x + 1),
        "feed_forward.feed_forward": dict(x=x, **network, record=Record()),
        "generation.places": dict(tokens=read, kv_cache=cache),
        "generation.read_so_far": dict(tokens=read, lengths=lengths, kv_cache=cache),
        "generation.with_cache": loop,
        "generation.without_cache": loop,
        "layers.norm": dict(x=x, params=stack, name="norm", config=STACK, record=Record()),
        "layers.post_norm_block": dict(x=x, rooms=post_rooms, mask=block_mask, causal=True, positions=positions),
        "layers.pre_norm_block": dict(x=x, rooms=rooms, causal=True, past=(normal(BATCH, 1, 2, 2), normal(BATCH, 1, 2, 2))),
        "layers.decoder_layer": dict(x=x, memory=memory, rooms=decoder_rooms, mask=block_mask, memory_mask=np.ones((BATCH, 1, 1, 5), bool)),
        "layers.embed": dict(tokens=read, table=table, config=LEARNED, record=Record(), positions=positions, learned=normal(9, WIDTH)),
        "layers.logits_of": dict(x=x, params=stack, table="embedding", config=STACK, record=Record()),
        "layers.flat": dict(layer="block.0", rooms={"norm": named}),
        "linear.linear": dict(x=x, w=w, b=b),
        "lora.init": dict(d_in=4, d_out=5, rank=2, seed=1, dtype=np.dtype("float32")),
        "lora.lora": dict(x=x, w=w, **low),
        "lora.merge": dict(w=w, **low),
        "lora.unmerge": dict(merged=w, **low),
        "lora.counts": dict(d_in=4, d_out=5, rank=2),
        "loss.cross_entropy": dict(
            logits=normal(BATCH, TIME, VOCAB), targets=targets, smoothing=0.1, ignore_index=6, lengths=lengths, reduction="sum", mask=scored
        ),
        "loss.smoothed_targets": dict(targets=targets, vocab=VOCAB, smoothing=0.1),
        "loss.entropy": dict(p=np.array([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0]])),
        "loss.position_weights": dict(targets=targets, ignore_index=6, lengths=lengths, reduction="last"),
        "loss.next_token": dict(tokens=read, lengths=lengths, mask=scored),
        "rows.mean_of": dict(rows=x),
        "rows.sum_of": dict(rows=x),
        "norm.layer_norm": dict(x=x, **norms, record=Record()),
        "norm.rms_norm": dict(x=x, gamma=norms["gamma"], eps=1e-5, record=Record()),
        "norm.norm_backward": dict(dy=x + 1, cache=bn.norm.rms_norm(x, norms["gamma"])[1]),
        "optimizer.noam": dict(step=3, d_model=4, warmup=5),
        "optimizer.adam": dict(params=named, grads=grads, state=state, lr=0.1, betas=(0.9, 0.98), eps=1e-9),
        "position.sinusoidal": dict(length=3, d_model=4, pairing="half"),
        "position.sinusoids": dict(positions=positions, d_model=4, pairing="half"),
        "position.rope": dict(x=q, positions=positions, base=100.0, pairing="half"),
        "preference.pairs": dict(prompts=[[1, 2], [3]], chosen=[[4], [5, 6]], rejected=[[1, 1, 1], [2]]),
        "preference.log_likelihood": dict(logits=normal(BATCH, TIME, VOCAB), targets=targets, mask=scored),
        "preference.bradley_terry": answers,
        "preference.dpo": dict(**answers, reference_chosen=normal(3), reference_rejected=normal(3), beta=0.1),
        "preference.expected_reward": dict(logits=normal(3), **policy),
        "preference.tilted": policy,
        "quantize.quantize": dict(x=w, axis=0),
        "quantize.dequantize": dict(quantized=stored),
        "quantize.error": dict(x=w, quantized=stored),
        "quantize.quantized_linear": dict(x=x, w=column, b=b),
        "quantize.quantize_params": dict(params=kept),
        "quantize.dequantize_params": dict(params=bn.quantize.quantize_params(kept)),
        "quantize.quantize_cache": dict(kv_cache=cache),
        "quantize.dequantize_cache": dict(quantized=bn.quantize.quantize_cache(cache)),
        "sampling.greedy": dict(logits=normal(BATCH, VOCAB)),
        "sampling.probabilities": dict(logits=normal(BATCH, VOCAB), temperature=0.7, top_k=4, top_p=0.8),
        "sampling.top_k_mask": dict(p=-np.sort(normal(BATCH, VOCAB)), k=2),
        "sampling.top_p_mask": dict(p=bn.softmax.softmax(normal(BATCH, VOCAB))[0], mass=0.7),
        "sampling.sample": dict(logits=normal(BATCH, VOCAB), rng=np.random.default_rng(0), temperature=0.7, top_k=4, top_p=0.8),
        "softmax.softmax": dict(x=normal(BATCH, TIME, 5), mask=mask[:, 0]),
        "step.run": dict(case=toy.lively()),
        "step.loss": dict(case=toy.lively()),
        "tiled.online_softmax": dict(running=running, scores=normal(BATCH, HEADS, TIME, 5), v=v),
        "tiled.start": dict(rows=(BATCH, HEADS, TIME), d_v=4, dtype=np.dtype("float32")),
        "tiled.tiled_attention": dict(q=q, k=k, v=v, causal=True, block=(2, 2)),
        "transformer.init": dict(config=CONFIG, seed=1, dtype=np.dtype("float32")),
        "transformer.forward": dict(params=params, config=CONFIG, source=source, decoder_input=read, source_lengths=np.array([4, 2]), target_lengths=lengths),
        "transformer.backward": dict(dlogits=normal(BATCH, TIME, VOCAB), cache=passed.cache, record=Record()),
        "transformer.gradients": dict(dlogits=normal(BATCH, TIME, VOCAB), cache=passed.cache),
    }
    calls |= {f"feed_forward.{name}": dict(x=x) for name in ("relu", "gelu", "gelu_tanh", "silu")}
    backwards = "attention.attention embedding.embedding linear.linear lora.lora norm.layer_norm norm.rms_norm position.rope " \
        "preference.log_likelihood layers.embed " \
        "softmax.softmax tiled.tiled_attention layers.decoder_layer layers.post_norm_block layers.pre_norm_block feed_forward.feed_forward " \
        "feed_forward.relu feed_forward.gelu feed_forward.gelu_tanh feed_forward.silu feed_forward.swiglu"  # fmt: skip
    for name in backwards.split():  # each follows its forward
        module, function = name.split(".")
        module = tiled if module == "tiled" else getattr(bn, module)
        y, cache_of_it = getattr(module, function)(**{key: value for key, value in calls[name].items() if key not in ("past",)})
        calls[f"{name}_backward"] = dict(dy=normal(*y.shape), cache=cache_of_it)
    return {f"numpy.{name}": call for name, call in calls.items()}


def check_calls():
    case = toy.decoder()
    output = bn.decoder.forward(case.params, case.config, case.decoder_input, record=Record())
    stages, wanted = {"a": normal(2, 3), "b": normal(3)}, {"a": normal(2, 3), "b": normal(3)}
    x, wide = normal(3), dict(w=normal(3, 2), b=normal(2))

    def f(x):
        return float((x * x).sum())

    def of_two(p):
        return float((p["w"] ** 2).sum() + (p["b"] ** 2).sum())

    def run(read):
        return bn.decoder.forward(case.params, case.config, read).logits

    def own_step(tokens, targets):
        found = bn.step.run(replace(case, decoder_input=tokens, targets=targets, target_lengths=None))
        return dict(params=case.params, logits=found.output.logits, loss=found.loss, gradients=found.gradients.params)

    slopes = {name: 2 * value for name, value in wide.items()}
    allowed = np.tril(np.ones((1, 1, *[case.decoder_input.shape[1]] * 2), bool))
    asked = [{"request": 1, "expected": 2}, {"request": 2, "expected": 3}]
    calls = {
        "mine": dict(step=own_step, names={"embedding": "embedding"}, optimizer={"lr": 0.1}, bound=1e-8, seed=1, timeout=9.0),
        "agreement": dict(a=x, b=x + 1e-12),
        "difference": dict(a=x, b=x + 1, name="a"),
        "attempt": dict(function=np.cumsum, reference=np.sort),
        "causal_isolation": dict(run=run, tokens=case.decoder_input, vocab=case.config.target_vocab, bound=1e-9),
        "central_difference": dict(f=f, x=x, index=(1,), h=1e-5, order=4),
        "directional_difference": dict(f=f, x=x, direction=normal(3), h=1e-5, order=4),
        "numerical_gradient": dict(f=f, x=x, h=1e-5),
        "gradient_check": dict(f=f, x=x, gradient=2 * x, along="directions", count=2, seed=1, h=1e-5, bound=1e-6, order=2),
        "derivative_agreement": dict(loss=of_two, params=wide, gradients=slopes, count=2, seed=1, h=1e-5, bound=1e-6),
        "compare": dict(mine=stages, reference=wanted, names={"a": "a"}, bound=1e-9),
        "diagnose": dict(mine=x, right=2 * x, bound=1e-9, others={"z": x + 1}, paths={"p": x - 1}),
        "four_witnesses": dict(case=toy.lively(), parameters=["output.b"], exact_entries=1),
        "head_shapes": dict(activations=output.activations, params=case.params, config=case.config, kv_cache=output.kv_cache, bound=1e-9),
        "invariants": dict(params=case.params, config=case.config, case=case, bound=1e-9),
        "kv_bytes": dict(config=STACK, batch=2, time=3, bytes_per_number=4),
        "memory_accounting": dict(params=case.params, config=case.config, tokens=case.decoder_input, budget=10**9),
        "probability_invariants": dict(activations=output.activations, allowed=allowed, bound=1e-9),
        "task_evaluation": dict(answer=lambda x: x + 1, cases=asked, at_least=0.5, budget=10.0),
        "watch": dict(module=torch.nn.Linear(2, 2)),
        "instruments.shifted": dict(inputs=tokens(BATCH, TIME), targets=tokens(BATCH, TIME)),
        "instruments.overlap": dict(training=[[1, 2], [3]], validation=[[4]]),
        "instruments.loss_at_start": dict(logits=normal(BATCH, TIME, VOCAB) * 0.01, targets=tokens(BATCH, TIME)),
        "instruments.first_not_finite": dict(stages=stages),
        "instruments.step_sizes": dict(before=stages, after=wanted, limit=0.3),
        "instruments.layer_gradients": dict(gradients={"encoder.0.w": normal(2, 2), "encoder.1.w": normal(2, 2)}, ratio=1e-3),
        "instruments.kept_memory": dict(step=lambda: None, times=2, slack=1 << 16),
        "instruments.memory_use": {},
        "instruments.by_slice": dict(correct=np.array([True, False, True]), slices={"s": np.array([True, True, False])}, margin=0.2),
    }
    return {f"check.{name}": call for name, call in calls.items()}


def torch_calls():
    x, w, b = tensor(BATCH, TIME, WIDTH), tensor(WIDTH, 6), tensor(6)
    q, k, v = tensor(BATCH, HEADS, TIME, WIDTH), tensor(BATCH, 1, 5, WIDTH), tensor(BATCH, 1, 5, 6)
    mask = torch.tensor(RNG.random((BATCH, HEADS, TIME, 5)) > 0.3)
    projections = dict(x=x, memory=x + 1, w_q=tensor(WIDTH, 8), w_k=tensor(WIDTH, 4), w_v=tensor(WIDTH, 6), n_heads=2, n_kv_heads=1)
    projections |= dict(b_q=tensor(8), b_k=tensor(4), b_v=tensor(6), pairing="half")
    network = dict(w_1=tensor(WIDTH, 6), b_1=b, w_2=tensor(6, WIDTH), b_2=tensor(WIDTH), activation="swiglu", w_3=tensor(WIDTH, 6))
    positions, read = torch.tensor([4, 0, 2]), torch.tensor(tokens(BATCH, TIME))
    lengths, scored = torch.tensor([2, 3]), torch.tensor([[True, False, True], [True, True, False]])
    parameter = torch.nn.Parameter(tensor(3))
    model, stack = bt.transformer.Transformer(CONFIG).double(), bt.decoder.Decoder(STACK).double()
    cache = stack.read(read)[1]
    onward = dict(tokens=read, kv_cache=cache, lengths=lengths, activations={}, look=True)
    norms = dict(gamma=tensor(WIDTH), eps=1e-5, record=Record())
    calls = {
        "attention.attention": dict(q=q, k=k, v=v, mask=mask, causal=True, plain=True, record=Record()),
        "attention.causal_mask": dict(t_q=2, t_k=3, device="cpu"),
        "attention.multi_head_attention": dict(
            **projections, w_o=tensor(12, WIDTH), b_o=tensor(WIDTH), mask=mask[..., :TIME], causal=True, positions=positions, plain=True
        ),
        "attention.project": dict(**projections, positions=positions, record=Record()),
        "attention.mix": dict(q=q, k=k, v=v, w_o=tensor(12, WIDTH), b_o=tensor(WIDTH), mask=mask, causal=True, plain=True, record=Record()),
        "attention.split_heads": dict(x=x, n_heads=2),
        "attention.merge_heads": dict(x=q),
        "embedding.embedding": dict(tokens=read, table=tensor(VOCAB, WIDTH), scaled=False),
        "embedding.embed": dict(
            tokens=read, positions=positions, table=tensor(VOCAB, WIDTH), learned=tensor(9, WIDTH), config=LEARNED, record=Record()
        ),
        "feed_forward.feed_forward": dict(x=x, **network, record=Record()),
        "linear.linear": dict(x=x, w=w, b=b),
        "loss.cross_entropy": dict(
            logits=tensor(BATCH, TIME, VOCAB), targets=read, smoothing=0.1, ignore_index=6, lengths=lengths, reduction="sum", mask=scored, look=True
        ),
        "norm.layer_norm": dict(x=x, beta=tensor(WIDTH), **norms),
        "norm.rms_norm": dict(x=x, **norms),
        "norm.make": dict(config=STACK),
        "optimizer.noam": dict(step=3, d_model=4, warmup=5),
        "optimizer.adam": dict(parameters=[parameter], lr=0.1, betas=(0.9, 0.98), eps=1e-9, fused=False),
        "optimizer.schedule": dict(optimizer=torch.optim.Adam([parameter]), d_model=4, warmup=5),
        "position.sinusoidal": dict(length=3, d_model=4, dtype=torch.float64, device="cpu", pairing="half"),
        "position.sinusoids": dict(positions=positions, d_model=4, dtype=torch.float64, pairing="half"),
        "position.rope": dict(x=q, positions=positions, base=100.0, pairing="half"),
        "softmax.softmax": dict(x=tensor(BATCH, TIME, 5), mask=mask[:, 0]),
        "step.run": dict(case=toy.lively()),
        "embedding.table": dict(vocab=3, d_model=2),
        "linear.weight": dict(d_in=3, d_out=2),
        "linear.zeros": dict(d_out=2),
        "weights.numpy_default": {},
    }
    calls |= {f"feed_forward.{name}": dict(x=x) for name in ("relu", "gelu", "gelu_tanh", "silu")}
    source = torch.tensor(tokens(BATCH, 4, below=5))
    methods = {
        "Decoder.forward": (stack.forward, onward),
        "Decoder.read": (stack.read, onward),
        "Decoder.load_params": (stack.load_params, dict(params=stack.params())),
        "Transformer.forward": (
            model.forward,
            dict(source=source, decoder_input=read, source_lengths=torch.tensor([4, 2]), target_lengths=lengths, activations={}, look=True),
        ),
    }
    return {f"torch.{name}": call for name, call in calls.items()}, {f"torch.{name}": call for name, call in methods.items()}


# ---- what else an argument may be ---------------------------------------------------------------

# By function, argument and kind of change, as regular expressions.
ALLOWED = {
    r".*\.init \(seed\) (0|-1)": "any seed is one",
    r"numpy\.quantize\.(quantize|error|quantize_params|dequantize_params) .* float16": "the one room that takes float16, and computes it in float32",
    r".*(rope|sinusoids|embed|project|multi_head_attention|block) \(positions\) too large": "a position may be any",
    r".*\.(\w*attention|attention_mask|mix|.*_block|decoder_layer|softmax) \((memory_)?mask\) (0-d|one axis less|shorter at the front|ones in front)":
        "a mask is broadcast",
    r"check\..* \((a|b|mine|right|reference|gradients?|x|direction|others|paths|stages|before|after)\) (one: )?"
    r"(NaN|-?inf|integers|float32.*|float16|objects|booleans|complex)": "what is compared is data of any kind: what is not finite is told of",
    r"check\.instruments\..* \((logits|stages|gradients|validation|slices)\) .*": "so are these, and there may be more or fewer of them",
    r"check\.(numerical_gradient|diagnose|agreement|difference) \((x|mine|right|b)\) (one axis less|a number)": "a number is an array of no axes",
    r"check\..* \((bound|at_least)\) -1": "a bound that nothing keeps",
    r"check\.central_difference \(index\) one: (0|-1)": "another entry",
    r"check\.task_evaluation \(cases\) one: one: .*": "a request is whatever is asked",
    r"check\.(causal_isolation|memory_accounting) \(tokens\) int8": "smaller tokens take less memory",
    r"numpy\.layers\.flat \((rooms|layer)\) (one.*|an unknown one|a word)": "only names are changed",
    r"numpy\.(softmax\.softmax|sampling\..*|preference\.expected_reward|tiled\.online_softmax) \((x|logits|p|scores|running)\) (peak: )?-inf":
        "an entry of a softmax that takes no part, where the room says so",
    r"numpy\.quantize\.(error|(de)?quantize(_params)?) \((x|quantized|params)\) (.*: )?(float32.*|ones in front|shorter at the back)":
        "a scale has a dtype of its own, and may be shared along any axis",
    r"numpy\.preference\.pairs \(.*\) one: one: 0": "0 is a token",
    r"numpy\.quantize\.(de)?quantize_params \(params\) one.*(missing|more|axis|0-d|shorter|ones|exchanged|float32).*": "any arrays under any names",
    r"numpy\.position\.sinusoids \(positions\) one axis less": "a number is an array of no axes",
    r"numpy\.loss\.next_token \(tokens\) (negative|too large)": "no vocabulary is known",
    r"torch\..*(?<!load_params) \(.*\) -?inf": "computed as IEEE 754 says, as everywhere in PyTorch; NaN is asked to stay NaN below",
    r".*\((alpha|ignore_index|axis)\) (0|-1)": "these may be negative, and 0",
}


# ---- the bad calls ------------------------------------------------------------------------------


class Wrong:
    """Of no type that a function could ask for."""

    def __repr__(self):
        return "Wrong()"


def is_array(value):
    return isinstance(value, (np.ndarray, torch.Tensor))


def arrays_in(value):
    """Every array of floating-point numbers in nested tuples, lists and dicts."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [array for part in value for array in arrays_in(part)]
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    return [value] if isinstance(value, np.ndarray) and value.dtype.kind == "f" else []


def tensors_in(value):
    return [array for array in arrays_in(value) if isinstance(array, torch.Tensor)]


def misshapen(value):
    """Other shapes than the good one."""
    yield "one axis more", value[None]
    if value.ndim:
        yield "0-d", value.reshape(-1)[0] if isinstance(value, torch.Tensor) else np.asarray(value.reshape(-1)[0])
        yield "one axis less", value[0]
        yield "shorter at the front", value[:-1]
        yield "shorter at the back", value[..., :-1]
        yield "empty", value[:0]
    if value.ndim > 1:
        yield "ones in front", value[tuple(slice(0, 1) for _ in value.shape[:-1])]
        if value.shape[0] != value.shape[1]:
            yield "first two axes exchanged", value.swapaxes(0, 1)
        if value.shape[-1] != value.shape[-2]:
            yield "last two axes exchanged", value.swapaxes(-1, -2)


def with_entry(value, entry):
    changed = value.clone() if isinstance(value, torch.Tensor) else value.copy()
    changed[(0,) * value.ndim] = entry
    return changed


def of_dtype(value, name):
    return value.to(getattr(torch, name)) if isinstance(value, torch.Tensor) else value.astype(name)


def to_other_library(value):
    return value.detach().numpy() if isinstance(value, torch.Tensor) else torch.tensor(value)


def spoilt(value, beside):
    """Kind of change and changed value, for a value of a good call beside other arrays."""
    if is_array(value):
        floating, boolean = "float" in str(value.dtype), "bool" in str(value.dtype)
        yield from misshapen(value)
        if floating:
            yield "NaN", with_entry(value, np.nan)
            yield "inf", with_entry(value, np.inf)
            yield "-inf", with_entry(value, -np.inf)
            yield "integers", of_dtype(value * 3, "int64")
            if beside:
                yield "float32 among float64", of_dtype(value, "float32")
            if isinstance(value, np.ndarray):
                yield "float16", value.astype(np.float16)
                yield "objects", value.astype(object)
        elif boolean:
            yield "integers", of_dtype(value, "int64")
        else:
            yield "negative", with_entry(value, -1)
            if value.dtype.itemsize > 2:
                yield "too large", with_entry(value, 10**6)
            yield "int8", of_dtype(value, "int8")
        yield "booleans" if not boolean else "floats", of_dtype(value, "float64" if boolean else "bool")
        yield "complex", of_dtype(value, "complex128")
        if not floating:
            yield "fractions", of_dtype(value, "float64") + 0.5
        yield "a list", value.tolist()
        yield "of the other library", to_other_library(value)
    elif isinstance(value, bool):
        yield from (("a string", "yes"), ("2", 2))
    elif isinstance(value, int):
        yield from (("a fraction", value + 0.5), ("NaN", np.nan), ("a string", str(value)), ("True", True), ("a list", [value]), ("0", 0), ("-1", -1))
    elif isinstance(value, float):
        yield from (("NaN", np.nan), ("inf", np.inf), ("a string", str(value)), ("a list", [value]), ("complex", 1j), ("an array", np.array([value, value])))
        if value > 0:
            yield "-1", -1.0
    elif isinstance(value, str):
        yield from (("an unknown one", "nonsense"), ("a list", [value]))
    elif isinstance(value, dict):
        yield "a list", list(value.values())
        for name, part in list(value.items())[:1]:
            yield "one missing", {other: array for other, array in value.items() if other != name}
            yield "one more", value | {"unknown": part}
            for kind, changed in spoilt(part, [1]):
                if kind != "of the other library" or is_array(part):
                    yield f"one: {kind}", value | {name: changed}
    elif hasattr(value, "_fields"):  # a cache
        yield "another room's", bn.softmax.SoftmaxCache(normal(2, 3)) if not isinstance(value, bn.softmax.SoftmaxCache) else Wrong()
        if isinstance(value, (bn.quantize.Quantized, tiled.Running)):
            for name in value._fields:
                for kind, changed in spoilt(getattr(value, name), [1]):
                    if kind not in ("negative", "a list", "of the other library"):
                        yield f"{name}: {kind}", value._replace(**{name: changed})
    elif isinstance(value, (list, tuple)):
        yield "empty", value[:0]
        yield "one more", (*value, Wrong())
        for kind, changed in spoilt(value[0], []):
            if kind not in ("a list",):
                yield f"one: {kind}", type(value)([changed, *value[1:]])
    if not isinstance(value, (str, list, tuple)):
        yield "a word", "nonsense"
    yield "None", None
    yield "a number", 3.5 if not isinstance(value, float) else Wrong()
    yield "nothing it could be", Wrong()


SHAPES = {kind for kind, _ in misshapen(np.ones((2, 3)))} | {"first two axes exchanged", "last two axes exchanged"}


def kinds_of(parameter):
    annotation = parameter.annotation
    return typing.get_args(annotation) if isinstance(annotation, (types.UnionType, typing._UnionGenericAlias)) else (annotation,)


def shapes_fit(signature, arguments):
    """Whether the shapes are what the annotations say; of a product of two names it is only asked that there is an axis."""
    with jaxtyped("context"):
        for name, value in arguments.items():
            kinds = [kind for kind in kinds_of(signature.parameters[name]) if hasattr(kind, "array_type")]
            kinds = [kind.dtype[kind.array_type, re.sub(r"\w+\*\w+", "_", kind.dim_str)] for kind in kinds]
            if value is not None and kinds and not any(isinstance(value, kind) for kind in kinds):
                return False
    return True


def bad_calls(name, function, call):
    """Argument, kind of change, arguments, and whether the annotations allow it."""
    signature = inspect.signature(function)
    for argument, value in call.items():
        parameter = signature.parameters[argument]
        beside = [array for other, part in call.items() if other != argument for array in arrays_in(part)]
        for kind, changed in spoilt(value, beside):
            if changed is None and (parameter.default is None or type(None) in kinds_of(parameter)):
                continue
            if any(re.fullmatch(pattern, f"{name} ({argument}) {kind}") for pattern in ALLOWED):
                continue
            arguments = call | {argument: changed}
            free = kind in SHAPES and not {argument, "cache"} < call.keys() and shapes_fit(signature, arguments)
            yield argument, kind, arguments, free


def run(function, arguments):
    if "rng" in arguments and isinstance(arguments["rng"], np.random.Generator):
        arguments = arguments | {"rng": np.random.default_rng(0)}
    arguments = {name: Record() if isinstance(value, Record) else value for name, value in arguments.items()}
    torch.manual_seed(0)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function(**arguments)
        return list(result) if inspect.isgenerator(result) else result


def same(one, other):
    """Whether two results are equal, down to the dtype."""
    if is_array(one) or isinstance(one, np.generic):
        alike = type(one) is type(other) and (one.dtype == other.dtype or "int" in str(one.dtype)) and one.shape == other.shape
        return alike and bool((one == other).all())
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, (tuple, list)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Report):
        return repr(one) == repr(other)
    if isinstance(one, bn.passes.Output):
        return same(one.logits, other.logits)
    return type(one) is type(other) and one == other


def names_it(message, argument, kind, arguments):
    """Whether a message names the argument, a part of it, or for what does not fit together another argument."""
    value, names = arguments[argument], [argument]
    if kind in SHAPES or kind == "float32 among float64":
        names += arguments
    names += ["parameter", "gradient of", *value] if isinstance(value, dict) else getattr(value, "_fields", ())
    names += [value] if isinstance(value, str) else []
    return any(re.search(rf"(?<![a-z]){name}(?![a-z])", message) for name in names)


def fault(function, argument, kind, arguments, free, good):
    """What is wrong with how a bad call is met, in words; None where nothing is."""
    try:
        result = run(function, arguments)
    except (ValueError, TypeError, IndexError) as error:
        bare = error.__traceback__.tb_next.tb_next
        while bare.tb_next:
            bare = bare.tb_next
        if "/byhand/" not in bare.tb_frame.f_code.co_filename or not names_it(str(error), argument, kind, arguments):
            return f"a bare error: {type(error).__name__}: {error}"
    except Exception as error:
        return f"a bare error: {type(error).__name__}: {error}"
    else:
        noticed = not result if isinstance(result, (Report, Verdict)) else kind == "NaN" and any(torch.isnan(t).any() for t in tensors_in(result))
        if not free and not noticed and not same(result, good):
            return "a wrong result in silence"


NUMPY, CHECK, (TORCH, METHODS) = numpy_calls(), check_calls(), torch_calls()
CALLS = {name: (function, (NUMPY | TORCH | CHECK).get(name)) for name, function in public_functions().items()} | METHODS


def test_every_public_function_has_a_good_call():
    missing = sorted(name for name, (_, call) in CALLS.items() if call is None)
    assert not missing, f"give each a call here: {missing}"
    assert not (NUMPY | TORCH | CHECK).keys() - CALLS.keys()


@pytest.mark.parametrize("name", CALLS)
def test_bad_calls_are_refused_by_name(name):
    function, call = CALLS[name]
    good = run(function, call)
    assert shapes_fit(inspect.signature(function), call), "the good call must be what the annotations say"
    found = [
        f"{argument}, {kind}: {wrong}"
        for argument, kind, arguments, free in bad_calls(name, function, call)
        if (wrong := fault(function, argument, kind, arguments, free, good))
    ]
    assert not found, "\n" + "\n".join(found)


# ---- what they return ---------------------------------------------------------------------------

CLASSES = {
    f"{thing.__module__.removeprefix('byhand.')}.{thing.__name__}": thing
    for name, module in sys.modules.items() if name.startswith("byhand.")
    for thing in vars(module).values() if dataclasses.is_dataclass(thing) and isinstance(thing, type)
}  # fmt: skip
FILLED = {"check.watch.Watched"}  # while the block runs


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_result_cannot_be_changed(name):
    how = CLASSES[name].__dataclass_params__
    assert how.frozen != (name in FILLED)
    if issubclass(CLASSES[name], Report):  # equal to itself alone, and shown as its own code says
        assert not how.eq and inspect.getsource(CLASSES[name].__repr__)


# ---- what is not said ---------------------------------------------------------------------------

USUAL = dict(
    smoothing=0.0, reduction="mean", causal=False, plain=False, eps=1e-5, warmup=4000, lr=1e-3, betas=(0.9, 0.98), base=10000.0, pairing="interleaved",
    activation="relu", look=True, keep=True, cached=True, seed=0, temperature=1.0, beta=0.1, axis=-1, block=(256, 512), bound=1e-9, h=1e-5, order=2, count=3,
    along="entries", returns=(), name="a", development=(), at_least=1.0, bytes_per_number=4, timeout=60.0, allowed=0.75, limit=0.3, ratio=1e-3, times=5,
    slack=1 << 16, margin=0.2, scaled=True,
)  # fmt: skip
UNUSUAL = {
    ("numpy.optimizer.adam", "eps"): 1e-9, ("torch.optimizer.adam", "eps"): 1e-9, ("torch.optimizer.adam", "lr"): 1.0,
    ("check.causal_isolation", "bound"): 1e-12, ("check.gradient_check", "bound"): 1e-6, ("check.derivative_agreement", "bound"): 1e-6,
} | {(f"numpy.layers.{kind}_norm_block{way}", argument): value for kind in ("pre", "post") for way, argument, value in (
    ("", "causal", True), ("_backward", "name", "attention"))}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_what_is_not_said_is_the_usual(name):
    parameters = inspect.signature(CALLS[name][0]).parameters.values()
    said = {p.name: p.default for p in parameters if isinstance(p.default, (bool, int, float, str, tuple))}
    assert said == {argument: UNUSUAL.get((name, argument), USUAL[argument]) for argument in said}
