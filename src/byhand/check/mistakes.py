"""Mistakes that are made in a hand-written backward, each as a change to a line of the package's own source.

    with MISTAKES["γ outside the two means"].planted():
        ...          # here byhand.numpy computes with the mistake
"""

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

from byhand.numpy import attention, embedding, feed_forward, layers, linear, loss, norm, optimizer, softmax, transformer


@dataclass(frozen=True)
class Change:
    """`right`, which stands once in the source of `where`, a function or a module's functions, becomes `wrong`."""

    where: Callable | ModuleType
    right: str
    wrong: str

    @property
    def function(self) -> Callable:
        """The function that has the line. Raises ValueError unless exactly one has it, once."""
        functions = [self.where] if inspect.isfunction(self.where) else _functions_of(self.where)
        found = [function for function in functions if self.right in _source(function)]
        if len(found) != 1 or _source(found[0]).count(self.right) != 1:
            raise ValueError(f"{self.where.__name__} has {len(found)} functions with {self.right!r}; one must have it, and once, for it to be changed")
        return found[0]


@dataclass(frozen=True)
class Mistake:
    """kind: "backward", "loss" (∂L/∂z), "optimizer", or "forward", where the backward is wrong in the same way and so agrees with it."""

    name: str
    why: str
    changes: tuple[Change, ...]
    kind: str = "backward"

    @contextmanager
    def planted(self) -> Iterator[None]:
        """While the block runs, every module of byhand.numpy uses the changed functions.

        Raises ValueError where a line to be changed is not in the source, or more than once.
        """
        sources = {}
        for change in self.changes:
            function = change.function
            sources[function] = sources.get(function, _source(function)).replace(change.right, change.wrong)
        wrong = {function: _compiled(function, source) for function, source in sources.items()}
        wrong |= {function.rule: mistaken.rule for function, mistaken in wrong.items() if hasattr(function, "rule")}
        undo = []
        try:
            for module in [module for name, module in sys.modules.items() if name.startswith("byhand.numpy")]:
                tables = [value for name, value in vars(module).items() if isinstance(value, dict) and not name.startswith("__")]
                for names in (vars(module), *tables):  # a table such as ACTIVATIONS holds functions too
                    for name, value in list(names.items()):
                        if _has(value, wrong):
                            undo.append((names, name, value))
                            names[name] = _exchanged(value, wrong)
            yield
        finally:
            for names, name, value in undo:
                names[name] = value

    def diff(self) -> str:
        """The changes as lines with − and +, under the function's name."""
        lines = []
        for change in self.changes:
            heading = f"{change.function.__module__.removeprefix('byhand.')}.{change.function.__name__}"
            if heading not in lines:
                lines.append(heading)
            lines += [f"− {line.strip()}" for line in _whole_lines(change)] + [f"+ {line.strip()}" for line in _whole_lines(change, wrong=True)]
        return "\n".join(lines)


def _has(value, wrong):
    return any(_has(part, wrong) for part in value) if type(value) is tuple else inspect.isfunction(value) and value in wrong


def _exchanged(value, wrong):
    return tuple(_exchanged(part, wrong) for part in value) if type(value) is tuple else wrong.get(value, value)


def _functions_of(module):
    return [value for value in vars(module).values() if inspect.isfunction(value) and value.__module__ == module.__name__]


def _source(function):
    return textwrap.dedent(inspect.getsource(function))


def _compiled(function, source):
    found = {}
    exec(compile(source, f"<mistaken {function.__qualname__}>", "exec"), inspect.unwrap(function).__globals__, found)
    return found[function.__name__]


def _whole_lines(change, wrong=False):
    """The lines in which the change stands."""
    source = _source(change.function)
    start = source.rindex("\n", 0, source.index(change.right)) + 1
    end = source.find("\n", source.index(change.right) + len(change.right.rstrip("\n")))
    text = source[start:end]
    return (text.replace(change.right.rstrip("\n"), change.wrong.rstrip("\n")) if wrong else text).splitlines()


def _one(name, why, where, right, wrong, *more, kind="backward"):
    """A mistake in one place; more: further pairs of right and wrong."""
    pairs = [(right, wrong), *zip(more[::2], more[1::2], strict=True)]
    return Mistake(name, why, tuple(Change(where, *pair) for pair in pairs), kind)


_LAYER_NORM = norm.layer_norm_backward
_SOFTMAX = softmax.softmax_backward
_ATTENTION = attention.attention_backward
_HEADS = attention.multi_head_attention_backward
_ENCODER, _DECODER = layers.post_norm_block_backward, layers.decoder_layer_backward
_DX = "dx = inverse_std * (dnormalised - along_ones - normalised * along_normalised)"
_KEEP_NORM = "LayerNormCache(normalised, inverse_std, gamma)"

_ALL = (
    # ---- layer norm ----
    _one(
        "γ outside the two means", "γ is pulled in front of the bracket, as for a scalar γ: right where its entries are equal",
        _LAYER_NORM, "dnormalised = dy * gamma", "dnormalised = dy", "dx = inverse_std * (", "dx = gamma * inverse_std * (",
    ),
    _one(
        "layer norm as a division by σ", "μ and σ are taken for constants",
        _LAYER_NORM, _DX, "dx = inverse_std * dnormalised",
    ),
    _one(
        "the mean of dx̂ not taken away", "μ is taken for a constant",
        _LAYER_NORM, "dnormalised - along_ones - normalised", "dnormalised - normalised",
    ),
    _one(
        "the part along x̂ not taken away", "σ is taken for a constant",
        _LAYER_NORM, " - normalised * along_normalised)", ")",
    ),
    _one(
        "ε missing in the backward", "1/σ is computed again, without ε",
        norm.layer_norm, _KEEP_NORM, "LayerNormCache(normalised, 1 / np.sqrt(var), gamma)",
    ),
    _one(
        "ε outside the root in the backward", "1/(σ + ε) for 1/√(σ² + ε)",
        norm.layer_norm, _KEEP_NORM, "LayerNormCache(normalised, 1 / (np.sqrt(var) + 1e-5), gamma)",
    ),
    _one(
        "n − 1 in the backward's means", "the unbiased variance's divisor",
        _LAYER_NORM, "along_ones = mean_of(dnormalised)", "along_ones = dnormalised.sum(axis=-1, keepdims=True) / (dy.shape[-1] - 1)",
        "mean_of(dnormalised * normalised)", "(dnormalised * normalised).sum(axis=-1, keepdims=True) / (dy.shape[-1] - 1)",
    ),
    _one(
        "dγ from x − μ instead of x̂", "what γ multiplies was not the centred row",
        _LAYER_NORM, "(dy * normalised)", "(dy * normalised / inverse_std)",
    ),
    _one(
        "dβ multiplied by γ", "β stands behind γ, not inside it",
        _LAYER_NORM, '"beta": dy.sum', '"beta": dnormalised.sum',
    ),
    _one(
        "dγ averaged over the rows", "mean for sum",
        _LAYER_NORM, "(dy * normalised).sum(", "(dy * normalised).mean(",
    ),
    _one(
        "the gradient from above changed in place", "dy is multiplied by γ where others still read it",
        _LAYER_NORM, "dnormalised = dy * gamma", "dnormalised = dy\n    dnormalised *= gamma",
    ),
    # ---- softmax and attention ----
    _one(
        "softmax backward entry by entry", "y(1 − y), the Jacobian's diagonal alone",
        _SOFTMAX, "y * (dy - (dy * y).sum(axis=-1, keepdims=True))", "y * (1 - y) * dy",
    ),
    _one(
        "softmax backward without its sum", "y dy",
        _SOFTMAX, "(dy - (dy * y).sum(axis=-1, keepdims=True))", "dy",
    ),
    _one(
        "softmax backward summed over the wrong axis", "columns instead of rows",
        _SOFTMAX, "(dy * y).sum(axis=-1, keepdims=True)", "(dy * y).sum(axis=-2, keepdims=True)",
    ),
    _one(
        "1/√d_k missing in dQ", "S = QKᵀ/√d_k has two factors, and each needs it",
        _ATTENTION, "dscores @ k * scale", "dscores @ k",
    ),
    _one(
        "1/√d_k missing in dK", "S = QKᵀ/√d_k has two factors, and each needs it",
        _ATTENTION, "@ q * scale", "@ q",
    ),
    _one(
        "1/√d_k applied twice", "dS was scaled, and then dQ and dK once more",
        _ATTENTION, "scale = 1 / math.sqrt(q.shape[-1])", "scale = 1 / q.shape[-1]",
    ),
    _one(
        "1/√d_v for 1/√d_k", "the wrong width, seen only where d_v ≠ d_k",
        _ATTENTION, "math.sqrt(q.shape[-1])", "math.sqrt(v.shape[-1])",
    ),
    _one(
        "A for Aᵀ in dV", "a missing transpose",
        _ATTENTION, "dv = weights.swapaxes(-1, -2) @ dy", "dv = weights @ dy",
    ),
    _one(
        "dS for dSᵀ in dK", "a missing transpose",
        _ATTENTION, "dk = dscores.swapaxes(-1, -2) @ q", "dk = dscores @ q",
    ),
    _one(
        "the mask ignored in the backward", "the weights are computed again from the scores, without the mask",
        _ATTENTION, "q, k, v, weights = cache\n", "q, k, v, _ = cache\n    weights, _ = softmax((q @ k.swapaxes(-1, -2)) / math.sqrt(k.shape[-1]))\n",
    ),
    _one(
        "heads put together without turning the axes back", "(heads, time, d) read as (time, heads·d)",
        _HEADS, "linear_backward(merge_heads(dq), cache.q)", "linear_backward(dq.reshape(*dq.shape[::2], -1), cache.q)",
    ),
    _one(
        "the heads' gradients in the wrong order", "the split of W_O's input reversed",
        _HEADS, "dconcat), n_heads)\n", "dconcat), n_heads)[:, ::-1]\n",
    ),
    _one(
        "the gradients of W_K and W_V exchanged", "two results unpacked in the wrong order",
        _HEADS, '"w_k": k["w"], "w_v": v["w"]', '"w_k": v["w"], "w_v": k["w"]',
    ),
    # ---- paths that meet ----
    _one(
        "the residual path around attention dropped", "x + f(x) taken for f(x)",
        _ENCODER, "dr_1 + dquery", "dquery",
    ),
    _one(
        "the residual path around the network dropped", "x + f(x) taken for f(x)",
        _DECODER, "dr_3 + dffn", "dffn",
    ),
    _one(
        "the network's path dropped", "x + f(x) taken for x",
        _ENCODER, "dr_2 + dffn", "dr_2",
    ),
    _one(
        "self-attention: the keys' path dropped", "X was used three times",
        _ENCODER, " + dkey + dvalue", " + dvalue",
    ),
    _one(
        "self-attention: the values' path dropped", "X was used three times",
        _DECODER, "dquery + dkey + dvalue", "dquery + dkey",
    ),
    _one(
        "cross-attention: the queries' path dropped", "the decoder's state was used for the queries too",
        _DECODER, "dr_2 + dquery", "dr_2",
    ),
    _one(
        "the memory's path through the keys dropped", "the memory was used twice",
        _DECODER, "dmemory = dkey + dvalue", "dmemory = dvalue",
    ),
    _one(
        "the memory's gradient from one layer alone", "every decoder layer reads the memory",
        transformer, "dmemory = dmemory + dmemory_i", "dmemory = dmemory_i",
    ),
    _one(
        "the memory's gradient dropped", "encoder and decoder taken for two networks",
        transformer, 'dx = record("encoder.memory", dmemory)', 'dx = 0 * record("encoder.memory", dmemory)',
    ),
    _one(
        "cross-attention's gradients sent to the wrong sides", "the queries' to the memory, the keys' and values' to the decoder",
        _DECODER, "dr_2 + dquery", "dr_2 + dkey + dvalue", "dmemory = dkey + dvalue", "dmemory = dquery",
    ),
    _one(
        "the encoder's layers walked forwards", "a forgotten reversed()",
        transformer, "for i in reversed(range(len(cache.encoder))):", "for i in range(len(cache.encoder)):",
    ),
    _one(
        "tied weights: the output layer's share dropped", "the table was used twice",
        transformer, ' + output["w"].T', "",
    ),
    # ---- linear, feed-forward, embedding ----
    _one(
        "bias gradient averaged over the rows", "mean for sum",
        linear.linear_backward, "dy_rows.sum(axis=0)", "dy_rows.mean(axis=0)",
    ),
    _one(
        "bias gradient of the first sequence alone", "a sum over time that forgets the batch",
        linear.linear_backward, "dy_rows.sum(axis=0)", "(dy[0] if dy.ndim == 3 else dy).sum(axis=0)",
    ),
    _one(
        "weight gradient averaged over the rows", "mean for sum",
        linear.linear_backward, "x_rows.T @ dy_rows", "x_rows.T @ dy_rows / len(x_rows)",
    ),
    _one(
        "ReLU's gate forgotten", "the gradient passes where nothing passed forward",
        feed_forward.relu_backward, "dy * cache.positive", "dy",
    ),
    _one(
        "ReLU's gate from the gradient's sign", "max(0, dy) for dy where x > 0",
        feed_forward.relu_backward, "dy * cache.positive", "np.maximum(dy, 0)",
    ),
    _one(
        "dW₂ from the values before ReLU", "the wrong array was kept",
        feed_forward.feed_forward, "FeedForwardCache(widen, bend, narrow,", "FeedForwardCache(widen, bend, narrow._replace(x=hidden),",
    ),
    _one(
        "a repeated token's gradient overwritten", "table[tokens] += dy adds once for each token, not for each place",
        embedding.embedding_backward, "np.add.at(dtable, entries.ravel(), dy.ravel())", "dtable[entries.ravel()] += dy.ravel()",
    ),
    _one(
        "√d forgotten in the embedding's backward", "the rows were scaled",
        embedding.embedding_backward, "dtable *= math.sqrt(d_model)", "pass",
    ),
    # ---- loss ----
    _one(
        "the loss's mean forgotten", "the gradient of the sum beside the value of the mean",
        loss.cross_entropy, "dlogits *= weight[..., None]", "dlogits *= scored[..., None]", kind="loss",
    ),
    _one(
        "the loss's mean over padding too", "divided by batch × time",
        loss.cross_entropy, "dlogits *= weight[..., None]", "dlogits *= scored[..., None] / scored.size", kind="loss",
    ),
    _one(
        "padding scored in the gradient", "the loss leaves it out, the gradient does not",
        loss.cross_entropy, "dlogits *= weight[..., None]", "dlogits *= weight.max()", kind="loss",
    ),
    _one(
        "label smoothing forgotten in the gradient", "p − one-hot beside the smoothed loss",
        loss.cross_entropy, "dlogits -= smoothing / vocab", "dlogits -= 0", "dlogits[right] -= 1 - smoothing", "dlogits[right] -= 1", kind="loss",
    ),
    _one(
        "label smoothing over the other classes", "ε/(V − 1) on the wrong classes alone, beside a loss with ε/V on all",
        loss.cross_entropy, "dlogits -= smoothing / vocab", "dlogits -= smoothing / (vocab - 1)",
        "dlogits[right] -= 1 - smoothing", "dlogits[right] -= 1 - smoothing - smoothing / (vocab - 1)", kind="loss",
    ),
    # ---- Adam ----
    _one(
        "Adam without bias correction", "m and v start at 0, and are taken as they are",
        optimizer.adam, "step, scaled_eps = lr * root / (1 - beta_1**t), eps * root", "step, scaled_eps = lr, eps", kind="optimizer",
    ),
    _one(
        "Adam: only m corrected", "v's correction forgotten",
        optimizer.adam, "step, scaled_eps = lr * root / (1 - beta_1**t), eps * root", "step, scaled_eps = lr / (1 - beta_1**t), eps", kind="optimizer",
    ),
    _one(
        "Adam: t stays at 1", "a counter that is not kept; the first step is right",
        optimizer.adam, "t += 1", "t = 1", kind="optimizer",
    ),
    _one(
        "Adam: β₁ and β₂ exchanged", "the first step is the same, lr · sign(g)",
        optimizer.adam, "beta_1, beta_2 = betas", "beta_2, beta_1 = betas", kind="optimizer",
    ),
    _one(
        "Adam: ε inside the root", "√(v̂ + ε) for √v̂ + ε: no matter until a gradient is small",
        optimizer.adam, "(np.sqrt(v) + scaled_eps)", "np.sqrt(v + eps * root**2)", kind="optimizer",
    ),
    # ---- wrong on the way forward, and back in the same way ----
    Mistake(
        "cross-attention wired the wrong way round",
        "queries from the memory, keys and values from the decoder: it leaks the future, and runs only where both lengths are equal",
        (
            Change(layers.decoder_layer, "rooms.attend(n, memory, memory_mask,", "rooms.attend(memory, n, mask,"),
            Change(_DECODER, "dr_2 + dquery", "dr_2 + dkey + dvalue"),
            Change(_DECODER, "dmemory = dkey + dvalue", "dmemory = dquery"),
        ),
        "forward",
    ),
    _one(
        "the causal mask forgotten", "every position sees the answer",
        layers.decoder_layer, ", causal=True)", ")", kind="forward",
    ),
    _one(
        "the padding mask forgotten in cross-attention", "padding is read as if it were words",
        layers.decoder_layer, "memory, memory_mask,", "memory, None,", kind="forward",
    ),
    _one(
        "the mask applied after the softmax", "what is masked is set to 0, and the rest no longer sums to 1",
        attention.attention, "weights, _ = softmax(scores, allowed)", "weights = softmax(scores)[0] * (1 if allowed is None else allowed)", kind="forward",
    ),
)  # fmt: skip

MISTAKES = {mistake.name: mistake for mistake in _ALL}
