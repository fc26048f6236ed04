"""What stands around a training step, each asked by several witnesses: "" where one notices nothing, words where it does.

Nothing here is kept from call to call, since a mistake may be planted in between; what must be right is worked out by other code than byhand.numpy's,
or by another part of it than the one that is asked.
"""

from collections.abc import Callable

import numpy as np

from byhand import toy
from byhand.check.derivatives import directional_difference
from byhand.check.measure import agreement
from byhand.numpy import attention, decoder, lora, preference, quantize, sampling, tiled

BOUND, SLOPE_BOUND = 1e-10, 1e-6


def _apart(bound=BOUND, **pairs):
    """The first pair that differs, "" where none does; arrays of unequal shape differ."""
    for name, (mine, right) in pairs.items():
        if np.shape(mine) != np.shape(right) or not agreement(mine, right) <= bound:
            return name
    return ""


def _slopes(**functions):
    """name=(f, x, gradient): whether f, a number, rises along two random directions as the gradient says."""
    for name, (f, x, gradient) in functions.items():
        for direction in np.random.default_rng(len(name)).choice((-1.0, 1.0), (2, *np.shape(x))):
            along, scale = directional_difference(f, x, direction, 2e-5, 4), np.abs(gradient).max()
            if agreement([float((gradient * direction).sum()), scale], [along, scale]) > SLOPE_BOUND:
                return name
    return ""


# ---- KV cache -----------------------------------------------------------------------------------


def _read_in_pieces():
    """The stack's logits, the first three tokens at once and the others one by one; two of three prompts are padded."""
    case = toy.decoder()
    prompt, lengths = case.decoder_input[:, :3], np.array([3, 2, 3])
    out = decoder.forward(case.params, case.config, prompt, lengths=lengths)
    logits = [out.logits[:, :2]]
    for t in range(3, case.decoder_input.shape[1]):
        out = decoder.forward(case.params, case.config, case.decoder_input[:, t : t + 1], out.kv_cache)
        logits.append(out.logits)
    # sentence 1 had one token less: what was read is its own sentence without the padding
    whole = [np.delete(row, 2) if b == 1 else row for b, row in enumerate(case.decoder_input)]
    return case, np.concatenate(logits, axis=1), whole


def _uncached(forward):
    case, mine, whole = _read_in_pieces()
    for b, tokens in enumerate(whole):
        right = forward(case, np.array([tokens]))[0]
        if bad := _apart(**{f"the logits of sentence {b}": (mine[b, -4:], right[-4:])}):
            return bad
    return ""


def _torch_logits(case, tokens):
    from byhand.torch.decoder import Decoder

    module = Decoder(case.config).double()
    module.load_params(case.params)
    return module(tokens).detach().numpy()


def _generated():
    """Tokens generated with a KV cache, and the same without; the prompts are of unequal lengths."""
    case = toy.decoder()
    how = dict(tokens=case.decoder_input[[0, 1, 2, 0, 1, 2], :4], n_new=4, lengths=np.array([4, 1, 2, 3, 2, 1]))
    rng = np.random.default_rng(5)  # with toy.decoder's own weights it would say one word all the time
    params = {name: value if value.ndim == 1 else rng.normal(0, 0.6, value.shape) for name, value in case.params.items()}
    runs = [np.array(list(decoder.generate(params, case.config, cached=cached, **how))) for cached in (True, False)]
    return _apart(tokens=runs)


def _cache_by_definition():
    return _uncached(lambda case, tokens: decoder.forward(case.params, case.config, tokens).logits) or _generated()


# ---- tiles --------------------------------------------------------------------------------------


def _tiles(causal=True):
    rng = np.random.default_rng(0)
    q, k, v, dy = (rng.normal(size=(2, 2, time, d)) for time, d in ((5, 4), (7, 4), (7, 3), (5, 3)))
    return (2.0 * q, k, v), dy, causal, (2, 3)


def _tiles_by_definition():
    inputs, dy, causal, block = _tiles()
    y, cache = tiled.tiled_attention(*inputs, causal, block)
    right, right_cache = attention.attention(*inputs, causal=causal)
    found = zip(tiled.tiled_attention_backward(dy, cache), attention.attention_backward(dy, right_cache))
    return _apart(y=(y, right), **dict(zip(("dq", "dk", "dv"), found)))


def _tiles_by_pytorch():
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    inputs, dy, _, block = _tiles()
    tensors = [torch.tensor(x, requires_grad=True) for x in inputs]
    mask = torch.ones(5, 7, dtype=torch.bool).tril(2)  # the last query sees the last key
    right = scaled_dot_product_attention(*tensors, attn_mask=mask)
    right.backward(torch.tensor(dy))
    y, cache = tiled.tiled_attention(*inputs, True, block)
    found = zip(tiled.tiled_attention_backward(dy, cache), [t.grad.numpy() for t in tensors])
    return _apart(y=(y, right.detach().numpy()), **dict(zip(("dq", "dk", "dv"), found)))


def _tiles_by_differences():
    inputs, dy, causal, block = _tiles()
    grads = tiled.tiled_attention_backward(dy, tiled.tiled_attention(*inputs, causal, block)[1])

    def along(i):
        return lambda x: float((dy * tiled.tiled_attention(*inputs[:i], x, *inputs[i + 1 :], causal, block)[0]).sum())

    return _slopes(**{name: (along(i), inputs[i], grads[i]) for i, name in enumerate(("dq", "dk", "dv"))})


# ---- LoRA ---------------------------------------------------------------------------------------


def _lora():
    rng = np.random.default_rng(1)
    x, w, a, b, dy = (rng.normal(size=shape) for shape in ((2, 3, 6), (6, 5), (6, 2), (2, 5), (2, 3, 5)))
    return dict(x=x, w=w, a=a, b=b), 3.0, dy


def _lora_by_definition():
    arrays, alpha, dy = _lora()
    x, w, a, b = arrays.values()
    whole = w + alpha / 2 * a @ b
    y, cache = lora.lora(**arrays, alpha=alpha)
    dx, grads = lora.lora_backward(dy, cache)
    dwhole = np.einsum("bti,bto->io", x, dy)  # the gradient at w + (α/r) ab, and by its factors
    return _apart(
        y=(y, x @ whole), merged=(lora.merge(w, a, b, alpha), whole), dx=(dx, dy @ whole.T),
        da=(grads["a"], alpha / 2 * dwhole @ b.T), db=(grads["b"], alpha / 2 * a.T @ dwhole),
    )  # fmt: skip


def _lora_by_pytorch():
    import torch

    arrays, alpha, dy = _lora()
    x, w, a, b = (torch.tensor(value, requires_grad=True) for value in arrays.values())
    right = x @ w + alpha / 2 * (x @ a @ b)
    right.backward(torch.tensor(dy))
    y, cache = lora.lora(**arrays, alpha=alpha)
    dx, grads = lora.lora_backward(dy, cache)
    merged = lora.merge(*list(arrays.values())[1:], alpha)
    pairs = dict(y=(y, right), dx=(dx, x.grad), da=(grads["a"], a.grad), db=(grads["b"], b.grad), merged=(merged, w + alpha / 2 * a @ b))
    return _apart(**{name: (mine, right.detach().numpy()) for name, (mine, right) in pairs.items()})


def _lora_by_differences():
    arrays, alpha, dy = _lora()
    dx, grads = lora.lora_backward(dy, lora.lora(**arrays, alpha=alpha)[1])

    def along(name):
        return lambda value: float((dy * lora.lora(**arrays | {name: value}, alpha=alpha)[0]).sum())

    return _slopes(**{f"d{name}": (along(name), arrays[name], grad) for name, grad in {"x": dx, **grads}.items()})


# ---- sampling -----------------------------------------------------------------------------------

_LOGITS = np.array([[2.0, 0.5, 1.5, -1.0, 0.0, 1.0], [0.0, 3.0, -2.0, 1.0, 2.5, 0.5]])
_CHOICES = ((0.5, None, None), (2.0, None, None), (1.0, 3, None), (1.0, None, 0.7), (1.5, 4, 0.6), (1.0, None, 0.2))


def _kept_by_hand(row, temperature, k, p):
    """The definition, a token at a time."""
    weights = dict(enumerate(np.exp(row / temperature)))
    likeliest = sorted(weights, key=lambda token: -weights[token])[:k]
    total, kept = sum(weights[token] for token in likeliest), []
    for token in likeliest:
        kept.append(token)
        if p is not None and sum(weights[token] for token in kept) >= p * total:
            break
    return [weights[token] / sum(weights[t] for t in kept) if token in kept else 0.0 for token in weights]


def _sampling_by_definition():
    for choice in _CHOICES:
        right = [_kept_by_hand(row, *choice) for row in _LOGITS]
        if bad := _apart(**{"temperature {}, top-k {}, top-p {}".format(*choice): (sampling.probabilities(_LOGITS, *choice), right)}):
            return bad
    return ""


def _sampling_by_pytorch():
    import torch

    for temperature, k, p in _CHOICES:
        z = torch.tensor(_LOGITS) / temperature
        if k is not None:
            z = z.masked_fill(z < z.topk(k).values[..., -1:], -torch.inf)
        if p is not None:
            ordered, order = z.softmax(-1).sort(descending=True)
            z = z.masked_fill((ordered.cumsum(-1) - ordered >= p).gather(-1, order.argsort(-1)), -torch.inf)
        mine = sampling.probabilities(_LOGITS, temperature, k, p)
        if bad := _apart(**{f"temperature {temperature}, top-k {k}, top-p {p}": (mine, z.softmax(-1).numpy())}):
            return bad
    return ""


def _probabilities_hold():
    for choice in _CHOICES:
        p = sampling.probabilities(_LOGITS, *choice)
        if np.abs(p.sum(axis=-1) - 1).max() > BOUND or (p < 0).any():
            return "each row of probabilities sums to 1"
        if (p.argmax(axis=-1) != _LOGITS.argmax(axis=-1)).any():
            return "the likeliest token is kept"
        if choice[0] < 1 and (p.max(axis=-1) <= sampling.probabilities(_LOGITS).max(axis=-1)).any():
            return "cold sharpens"
    return ""


# ---- preferences --------------------------------------------------------------------------------


class _Preferences:
    """Three pairs of scores, two answers with their prompts, and a policy over four answers."""

    def __init__(self):
        rng = np.random.default_rng(2)
        self.chosen, self.rejected, self.reference_chosen, self.reference_rejected = rng.normal(size=(4, 3))
        self.prompts, self.better, self.worse = ([1, 2], [3]), ([4, 5, 1], [2]), ([0], [5, 5])
        self.logits, self.dy = rng.normal(size=(2, 4, 6)), rng.normal(size=2)
        self.policy, self.reward = rng.normal(size=(2, 4))
        self.prior, self.beta = np.array([0.1, 0.2, 0.3, 0.4]), 0.7

    def answers(self):
        return preference.pairs(self.prompts, self.better, self.worse)[0]

    def scores(self):
        return self.chosen, self.rejected, self.reference_chosen, self.reference_rejected

    def right_mask(self):
        return np.array([[False, True, True, True], [True, False, False, False]])


def _preferences_by_definition():
    case = _Preferences()
    answers = case.answers()
    log_p = case.logits - np.log(np.exp(case.logits).sum(axis=-1, keepdims=True))
    likelihoods = [sum(log_p[b, t, answers.targets[b, t]] for t in range(4) if case.right_mask()[b, t]) for b in range(2)]
    margin = case.chosen - case.rejected
    implied = case.beta * (margin - (case.reference_chosen - case.reference_rejected))
    return _apart(
        **{"where an answer is scored": (answers.mask.astype(float), case.right_mask().astype(float))},
        likelihood=(preference.log_likelihood(case.logits, answers.targets, case.right_mask())[0], likelihoods),
        bradley_terry=(preference.bradley_terry(case.chosen, case.rejected)[0], np.mean(np.log(1 + np.exp(-margin)))),
        dpo=(preference.dpo(*case.scores(), case.beta)[0], np.mean(np.log(1 + np.exp(-implied)))),
    )


def _preferences_by_pytorch():
    import torch

    case = _Preferences()
    scores = [torch.tensor(value, requires_grad=True) for value in case.scores()]
    targets = torch.tensor(case.answers().targets)
    z, policy = torch.tensor(case.logits, requires_grad=True), torch.tensor(case.policy, requires_grad=True)
    likelihood = (z.log_softmax(-1).gather(-1, targets[..., None])[..., 0] * torch.tensor(case.right_mask())).sum(1)
    likelihood.backward(torch.tensor(case.dy))
    advantage = torch.tensor(case.reward) - case.beta * (policy.log_softmax(0) - torch.tensor(case.prior).log())
    reward = (policy.softmax(0) * advantage).sum()
    reward.backward()
    found = {}
    for name, margin, mine in (
        ("bradley_terry", scores[0] - scores[1], preference.bradley_terry(case.chosen, case.rejected)),
        ("dpo", case.beta * (scores[0] - scores[2] - scores[1] + scores[3]), preference.dpo(*case.scores(), case.beta)),
    ):
        right = -torch.nn.functional.logsigmoid(margin).mean()
        slopes = torch.autograd.grad(right, scores[:2])
        found |= {name: (mine[0], right.item()), f"{name}'s slopes": (np.array(mine[1]), np.array([s.numpy() for s in slopes]))}
    value, cache = preference.log_likelihood(case.logits, case.answers().targets, case.right_mask())
    found |= {"likelihood": (value, likelihood.detach().numpy()), "its gradient": (preference.log_likelihood_backward(case.dy, cache)[0], z.grad.numpy())}
    mine = preference.expected_reward(case.policy, case.prior, case.reward, case.beta)
    return _apart(**found, reward=(mine[0], reward.item()), **{"the reward's gradient": (mine[1], policy.grad.numpy())})


def _preferences_by_differences():
    case = _Preferences()
    targets, mask = case.answers().targets, case.right_mask()
    slopes = preference.bradley_terry(case.chosen, case.rejected)[1]
    dpo = preference.dpo(*case.scores(), case.beta)[1]
    dlogits = preference.log_likelihood_backward(case.dy, preference.log_likelihood(case.logits, targets, mask)[1])[0]
    reward = preference.expected_reward(case.policy, case.prior, case.reward, case.beta)[1]
    return _slopes(
        chosen=(lambda x: preference.bradley_terry(x, case.rejected)[0], case.chosen, slopes[0]),
        rejected=(lambda x: preference.bradley_terry(case.chosen, x)[0], case.rejected, slopes[1]),
        dpo=(lambda x: preference.dpo(x, *case.scores()[1:], case.beta)[0], case.chosen, dpo[0]),
        likelihood=(lambda x: float(case.dy @ preference.log_likelihood(x, targets, mask)[0]), case.logits, dlogits),
        reward=(lambda x: preference.expected_reward(x, case.prior, case.reward, case.beta)[0], case.policy, reward),
    )


# ---- quantisation -------------------------------------------------------------------------------


def _matrix():
    w = np.random.default_rng(3).normal(size=(6, 4)) * [1, 0.01, 3, 0.2]
    w[2] = [-4.0, -0.05, -9.0, 0.9]  # the largest of each column, three of them negative
    return w


def _quantisation_by_definition():
    w, x = _matrix(), np.random.default_rng(4).normal(size=(3, 6))
    half = np.abs(w).max(axis=0) / 127 / 2
    for name, stored in {"quantize": quantize.quantize(w, axis=0), "quantize_params": quantize.quantize_params({"w": w})["w"]}.items():
        if (np.abs(stored.scale * stored.values.astype(float) - w) > half * (1 + 1e-9)).any():
            return f"{name}: every number moves by at most half a step"
    stored = quantize.quantize(w, axis=0)
    return _apart(product=(quantize.quantized_linear(x, stored), x @ (stored.scale * stored.values)))


def _quantisation_by_pytorch():
    import torch

    w, x = _matrix(), np.random.default_rng(4).normal(size=(3, 6))
    scale = torch.tensor(np.abs(w).max(axis=0) / 127, dtype=torch.float32)
    right = torch.fake_quantize_per_channel_affine(torch.tensor(w, dtype=torch.float32), scale, torch.zeros(4, dtype=torch.int32), 1, -127, 127).numpy()
    for name, stored in {"quantize": quantize.quantize(w, axis=0), "quantize_params": quantize.quantize_params({"w": w})["w"]}.items():
        if bad := _apart(1e-6, **{name: (stored.scale * stored.values.astype(float), right)}):
            return bad
    return _apart(1e-6, product=(quantize.quantized_linear(x, quantize.quantize(w, axis=0)), x @ right))


PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "KV cache": {"PyTorch": lambda: _uncached(_torch_logits), "definition": _cache_by_definition},
    "tiles": {"PyTorch": _tiles_by_pytorch, "central differences": _tiles_by_differences, "definition": _tiles_by_definition},
    "LoRA": {"PyTorch": _lora_by_pytorch, "central differences": _lora_by_differences, "definition": _lora_by_definition},
    "sampling": {"PyTorch": _sampling_by_pytorch, "invariants": _probabilities_hold, "definition": _sampling_by_definition},
    "preferences": {"PyTorch": _preferences_by_pytorch, "central differences": _preferences_by_differences, "definition": _preferences_by_definition},
    "quantisation": {"PyTorch": _quantisation_by_pytorch, "definition": _quantisation_by_definition},
}
