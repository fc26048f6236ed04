"""The catalogue: mistakes that are made in a hand-written transformer, each as a change to a line of the package's own source.

    with MISTAKES["γ outside the two means"].planted():
        ...          # here byhand.numpy computes with the mistake

Those of a training step come first, the encoder-decoder's and what both models share, then the decoder stack's own (part "stack"); then those of what stands
around it: the KV cache, attention in tiles, LoRA, sampling, preferences, quantisation. kill.py asks every witness about each, and mine.py
looks among those of a training step for the one that a reader's arrays show.
"""

from byhand.numpy import (
    attention,
    decoder,
    embedding,
    feed_forward,
    generation,
    layers,
    linear,
    lora,
    loss,
    norm,
    optimizer,
    position,
    preference,
    quantize,
    sampling,
    softmax,
    tiled,
    transformer,
)

from .plant import Change, Mistake

PAGES = {
    attention: "step/20-attention-backward", decoder: "stack/07-depth", embedding: "step/21-decoder-walk", feed_forward: "step/19-feed-forward-backward",
    generation: "stack/10a-inference", layers: "step/21-decoder-walk", linear: "step/17-output-layer", lora: "stack/11b-lora",
    loss: "step/16-logits", norm: "step/18-layer-norm-backward", optimizer: "step/25-adam", position: "stack/06b-rope-and-norms",
    preference: "stack/09b-preferences", quantize: "stack/10c-decoding", sampling: "stack/10c-decoding", softmax: "step/20a-attention-row",
    tiled: "stack/10b-tiled-attention", transformer: "step/21-decoder-walk",
}  # fmt: skip


def _one(name, why, where, right, wrong, *more, kind="backward", part="step", page=""):
    """A mistake in one place; more: further pairs of right and wrong."""
    pairs = [(right, wrong), *zip(more[::2], more[1::2], strict=True)]
    return _several(name, why, *((where, *pair) for pair in pairs), kind=kind, part=part, page=page)


def _several(name, why, *changes, kind="forward", part="step", page=""):
    """A mistake in several places, each given as where, right, wrong."""
    changes = tuple(Change(*change) for change in changes)
    module = next(module for module in PAGES if changes[0].where in (module, getattr(module, changes[0].where.__name__, None)))
    return Mistake(name, why, changes, kind, part, page or PAGES[module])


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
        page="step/20c-mask-backward",
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
        "a repeated token's gradient overwritten, time first", "the same where the first axis is the time: another of its places comes last",
        embedding.embedding_backward, "np.add.at(dtable, entries.ravel(), dy.ravel())",
        "dtable[entries.swapaxes(0, 1).ravel()] += dy.swapaxes(0, 1).ravel()",
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
    _several(
        "cross-attention wired the wrong way round",
        "queries from the memory, keys and values from the decoder: it leaks the future, and runs only where both lengths are equal",
        (layers.decoder_layer, "rooms.attend(n, memory, memory_mask,", "rooms.attend(memory, n, mask,"),
        (_DECODER, "dr_2 + dquery", "dr_2 + dkey + dvalue"), (_DECODER, "dmemory = dkey + dvalue", "dmemory = dquery"),
        page="step/10-cross-attention",
    ),
    _several(
        "the causal mask forgotten", "every position sees the answer",
        (layers.decoder_layer, ", causal=True)", ")"), (decoder, "rooms, mask, True, turned, past", "rooms, mask, False, turned, past"),
        page="step/09-masked-attention",
    ),
    _one(
        "the padding mask forgotten in cross-attention", "padding is read as if it were words",
        layers.decoder_layer, "memory, memory_mask,", "memory, None,", kind="forward", page="step/10-cross-attention",
    ),
    _one(
        "the mask applied after the softmax", "what is masked is set to 0, and the rest no longer sums to 1",
        attention.attention, "weights, _ = softmax(scores, allowed)", "weights = softmax(scores)[0] * (1 if allowed is None else allowed)", kind="forward",
        page="step/09-masked-attention",
    ),
    # ---- reported by others: norms ----
    _several(
        "the variance divided by n − 1", "the unbiased estimate, which statistics packages and torch.std take unasked",
        (norm.layer_norm, 'mean_of(centred * centred)', "(centred * centred).sum(axis=-1, keepdims=True) / (x.shape[-1] - 1)"),
        (_LAYER_NORM, "mean_of(dnormalised * normalised)", "(dnormalised * normalised).sum(axis=-1, keepdims=True) / (dy.shape[-1] - 1)"),
        page="step/07-add-and-norm",
    ),
    _several(
        "ε outside the root", "1/(σ + ε) for 1/√(σ² + ε), forward and backward",
        (norm.layer_norm, "1 / np.sqrt(var + eps)", "1 / (np.sqrt(var) + eps)"),
        (_LAYER_NORM, "mean_of(dnormalised * normalised)", "mean_of(dnormalised * normalised) / np.sqrt(mean_of(normalised * normalised))"),
        page="step/07-add-and-norm",
    ),
    _several(
        "rows flattened before a norm's backward", "one mean over all rows, where each row has its own",
        (_LAYER_NORM, "mean_of(dnormalised)", "dnormalised.mean()"), (_LAYER_NORM, "mean_of(dnormalised * normalised)", "(dnormalised * normalised).mean()"),
        (norm.rms_norm_backward, "mean_of(dnormalised * normalised)", "(dnormalised * normalised).mean()"), kind="backward",
    ),
    # ---- attention ----
    _one(
        "the causal mask one place too late", "each position sees the next one, its own answer",
        attention.attention_mask, "np.tri(t_q, t_k, t_k - t_q, dtype=bool)", "np.tri(t_q, t_k, t_k - t_q + 1, dtype=bool)",
        kind="forward", page="step/09-masked-attention",
    ),
    _one(
        "the causal mask one place too early", "no position sees itself",
        attention.attention_mask, "np.tri(t_q, t_k, t_k - t_q, dtype=bool)", "np.tri(t_q, t_k, t_k - t_q - 1, dtype=bool)",
        kind="forward", page="step/09-masked-attention",
    ),
    _several(
        "1/√d_k missing in the scores", "a product of rows, as it stands",
        (attention.attention, "scores /= math.sqrt(q.shape[-1])", "pass"),
        (_ATTENTION, "scale = 1 / math.sqrt(q.shape[-1])", "scale = 1.0"),
        page="step/06-attention",
    ),
    _several(
        "1/√d_model for 1/√d_k", "the width of all heads together, where each head has its own",
        (attention.attention, "scores /= math.sqrt(q.shape[-1])", "scores /= math.sqrt(q.shape[1] * q.shape[-1])"),
        (_ATTENTION, "scale = 1 / math.sqrt(q.shape[-1])", "scale = 1 / math.sqrt(q.shape[1] * q.shape[-1])"),
        page="step/06-attention",
    ),
    _several(
        "softmax over the queries", "columns of weights that sum to 1, where rows must",
        (
            attention.attention, "weights, _ = softmax(scores, allowed)",
            "weights = softmax(scores.swapaxes(-1, -2), None if allowed is None else np.broadcast_to(allowed, scores.shape).swapaxes(-1, -2))[0]\n"
            "    weights = weights.swapaxes(-1, -2)",
        ),
        (
            _ATTENTION, "dscores, _ = softmax_backward(dweights, SoftmaxCache(weights))",
            "dscores = softmax_backward(dweights.swapaxes(-1, -2), SoftmaxCache(weights.swapaxes(-1, -2)))[0].swapaxes(-1, -2)",
        ),
        page="step/06-attention",
    ),
    _one(
        "the attention weights cut from the graph", "detach, no_grad or .data: W_Q and W_K get no gradient",
        _ATTENTION, "record(\"scores\", dscores)", "dscores = record(\"scores\", 0 * dscores)",
    ),
    _several(
        "a row cut into heads before its projection", "each head projects its own piece of the row, where each must read the whole",
        *(
            (attention.multi_head_attention, f"linear({x}, {w},", f"linear({x}, {w} * np.kron(np.eye({n}), np.ones((len({w}) // {n}, {w}.shape[1] // {n}))),")
            for x, w, n in (("x", "w_q", "n_heads"), ("memory", "w_k", "n_kv_heads"), ("memory", "w_v", "n_kv_heads"))
        ),
        (
            _HEADS, '"w_q": q["w"], "w_k": k["w"], "w_v": v["w"]',
            '"w_q": q["w"] * (cache.q.w != 0), "w_k": k["w"] * (cache.k.w != 0), "w_v": v["w"] * (cache.v.w != 0)',
        ),
        page="step/05-queries-keys-values",
    ),
    _several(
        "heads cut without turning the axes", "reshape to (batch, heads, time, d) without a transpose mixes positions with columns",
        (attention.split_heads, "x.reshape(batch, time, n_heads, width // n_heads).swapaxes(1, 2)", "x.reshape(batch, n_heads, time, width // n_heads)"),
        (attention.merge_heads, "x.swapaxes(1, 2).reshape(batch, time, heads * d)", "x.reshape(batch, time, heads * d)"),
        page="step/05-queries-keys-values",
    ),
    # ---- sums ----
    _one(
        "the last position left out of a bias gradient", "a slice that ends one too early",
        linear.linear_backward, "dy_rows.sum(axis=0)", "(dy[:, :-1].reshape(-1, dy.shape[-1]) if dy.ndim == 3 else dy_rows).sum(axis=0)",
    ),
    _several(
        "no residual path around attention", "f(x) for x + f(x), forward and backward",
        (layers.post_norm_block, "x + attended", "attended"), (_ENCODER, "dr_1 + dquery", "dquery"),
        (layers.pre_norm_block, "x + attended", "attended"), (layers.pre_norm_block_backward, "du + dnorm", "dnorm"),
        page="step/07-add-and-norm",
    ),
    # ---- loss ----
    _one(
        "−q for p − q", "the derivative of the right class's logit alone, without the softmax's sum",
        loss.cross_entropy, "dlogits = exponentials / total", "dlogits = 0 * exponentials", kind="loss",
    ),
    _one(
        "p for p − q", "the one-hot not taken away",
        loss.cross_entropy, "dlogits -= smoothing / vocab", "dlogits -= 0", "dlogits[right] -= 1 - smoothing", "dlogits[right] -= 0", kind="loss",
    ),
    _one(
        "smoothing over the other classes, in the loss too", "Tensor2Tensor's convention: ε/(V − 1) on the wrong classes, none on the right one",
        loss.cross_entropy, "smoothing / vocab * shifted.sum(axis=-1)", "smoothing / (vocab - 1) * (shifted.sum(axis=-1) - shifted[right])",
        "dlogits -= smoothing / vocab", "dlogits -= smoothing / (vocab - 1)",
        "dlogits[right] -= 1 - smoothing", "dlogits[right] -= 1 - smoothing - smoothing / (vocab - 1)", kind="forward", page="step/13-loss",
    ),
    _one(
        "a mean of means", "each sentence's mean, and then theirs: words of short sentences weigh more",
        loss.position_weights, "1 / count", "1 / (scored.sum(axis=1, keepdims=True) * batch)", kind="forward", page="step/13-loss",
    ),
    _one(
        "divided by batch × time, in the loss too", "padding is not scored, but counted",
        loss.position_weights, "1 / count", "1 / scored.size", kind="forward", page="step/13-loss",
    ),
    _one(
        "padding scored, in the loss too", "the loss does not know the lengths",
        loss.position_weights, "steps < ends[:, None]", "steps < ends[:, None] + time", kind="forward", page="step/13-loss",
    ),
    # ---- Adam ----
    _one(
        "Adam: ε beside the uncorrected root", "√v + ε for √v̂ + ε, as when the corrections are folded into the learning rate",
        optimizer.adam, "(np.sqrt(v) + scaled_eps)", "(np.sqrt(v) + eps)", kind="optimizer",
    ),
    _one(
        "Adam: the root forgotten", "m̂/(v̂ + ε)",
        optimizer.adam, "(np.sqrt(v) + scaled_eps)", "(v + scaled_eps)", kind="optimizer",
    ),
    _one(
        "the step taken uphill", "θ + for θ −",
        optimizer.adam, "np.subtract(theta, change", "np.add(theta, change", kind="optimizer",
    ),
    # ---- the decoder stack: RoPE ----
    _one(
        "RoPE turned the other way", "−θ for θ: a key behind looks like one ahead",
        position.rope, "_rotate(x, cos, sin, pairing), RopeCache(cos, sin,", "_rotate(x, cos, -sin, pairing), RopeCache(cos, -sin,",
        kind="forward", part="stack",
    ),
    _one(
        "RoPE not turned back", "the backward turns by θ once more, where it must turn by −θ",
        position.rope_backward, "_rotate(dy, cos, -sin, pairing)", "_rotate(dy, cos, sin, pairing)", part="stack",
    ),
    _one(
        "RoPE on the queries alone", "keys stay where they are, so that absolute positions are read",
        attention.multi_head_attention, 'rope(record("k_unrotated", k), positions,', 'rope(record("k_unrotated", k), 0 * positions,',
        kind="forward", part="stack", page="stack/06b-rope-and-norms",
    ),
    _one(
        "RoPE pairs the halves", "(i, i + d/2) for (2i, 2i + 1): right with weights that were made for it",
        position, 'if pairing == "interleaved":', 'if pairing == "half":', kind="forward", part="stack",
    ),
    _one(
        "RoPE's angles from i/d", "base^(−i/d) for base^(−2i/d)",
        position.rope, "np.arange(0, d, 2) / d", "np.arange(d // 2) / d", kind="forward", part="stack",
    ),
    # ---- RMS norm ----
    _one(
        "RMS norm as a division by a constant", "the part along x̂ is not taken away",
        norm.rms_norm_backward, "(dnormalised - normalised * along_normalised)", "dnormalised", part="stack", page="stack/06c-norms",
    ),
    _one(
        "RMS norm: γ outside the mean", "right where its entries are equal",
        norm.rms_norm_backward, "dnormalised = dy * gamma", "dnormalised = dy", "dx = inverse_rms * (", "dx = gamma * inverse_rms * (",
        part="stack", page="stack/06c-norms",
    ),
    _one(
        "layer norm's backward for an RMS norm", "a mean taken away that was never taken away forward",
        norm.rms_norm_backward, "(dnormalised - normalised", "(dnormalised - mean_of(dnormalised) - normalised", part="stack", page="stack/06c-norms",
    ),
    _one(
        "RMS norm: ε missing in the backward", "the root is computed again, without ε",
        norm.rms_norm, "RmsNormCache(normalised, inverse_rms, gamma)", "RmsNormCache(normalised, 1 / np.sqrt(mean_square), gamma)",
        part="stack", page="stack/06c-norms",
    ),
    _several(
        "RMS norm by the sum", "the length of the row for its root mean square",
        (norm.rms_norm, "mean_of(x * x)", "(x * x).sum(axis=-1, keepdims=True)"),
        (norm.rms_norm_backward, "mean_of(dnormalised * normalised)", "(dnormalised * normalised).sum(axis=-1, keepdims=True)"),
        part="stack", page="stack/06c-norms",
    ),
    _one(
        "RMS norm: dγ from x instead of x̂", "what γ multiplies was the normalised row",
        norm.rms_norm_backward, "(dy * normalised).sum(", "(dy * normalised / inverse_rms).sum(", part="stack", page="stack/06c-norms",
    ),
    # ---- activations with a gate, and GELU ----
    _several(
        "SwiGLU: SiLU on the other branch", "w_1 and w_3 have changed places",
        (feed_forward.feed_forward, 'branches = hidden, record("gate", gate)', 'branches = record("gate", gate), hidden'),
        (feed_forward.feed_forward_backward, "else dbent\n", "else dbent[::-1]\n"),
        part="stack", page="stack/06a-block",
    ),
    _one(
        "SwiGLU: the gate's path dropped", "x was used twice",
        feed_forward.feed_forward_backward, "dx = dx + via_gate", "pass", part="stack", page="stack/06a-block",
    ),
    _one(
        "SwiGLU: the gate's gradient without SiLU", "the value before the bend was kept",
        feed_forward.swiglu_backward, "dy * cache.bent", "dy * cache.silu.x", part="stack", page="stack/06a-block",
    ),
    _one(
        "SwiGLU: the other branch without the gate", "a product's derivative is the other factor",
        feed_forward.swiglu_backward, "dy * cache.gate", "dy", part="stack", page="stack/06a-block",
    ),
    _one(
        "SiLU's slope taken for σ(x)", "x σ(x) depends on x twice",
        feed_forward.silu_backward, "sigmoid * (1 + x * (1 - sigmoid))", "sigmoid", part="stack", page="stack/06a-block",
    ),
    _one(
        "GELU's slope taken for Φ(x)", "x Φ(x) depends on x twice",
        feed_forward.gelu_tanh_backward, " + x / 2 * (1 - bent * bent) * slope", "", part="stack", page="stack/06a-block",
    ),
    # ---- shared heads ----
    _several(
        "tile for repeat", "query head h reads key head h mod n, where neighbours must share",
        (attention.repeat_heads, "np.repeat(x, shared, axis=1)", "np.tile(x, (1, shared, 1, 1))"),
        (
            attention.sum_heads, "dy.reshape(batch, n_kv_heads, heads // n_kv_heads, time, d).sum(axis=2)",
            "dy.reshape(batch, heads // n_kv_heads, n_kv_heads, time, d).sum(axis=1)",
        ),
        part="stack", page="stack/03-attention-shapes",
    ),
    _one(
        "shared heads: gradients of strangers added", "the heads are grouped another way than forward",
        attention.sum_heads, "dy.reshape(batch, n_kv_heads, heads // n_kv_heads, time, d).sum(axis=2)",
        "dy.reshape(batch, heads // n_kv_heads, n_kv_heads, time, d).sum(axis=1)", part="stack", page="stack/03-attention-shapes",
    ),
    _one(
        "shared heads: gradients averaged", "mean for sum",
        attention.sum_heads, ".sum(axis=2)", ".mean(axis=2)", part="stack", page="stack/03-attention-shapes",
    ),
    _one(
        "shared heads: one reader's gradient alone", "every query head that read the key adds",
        attention.sum_heads, ".sum(axis=2)", "[:, :, 0]", part="stack", page="stack/03-attention-shapes",
    ),
    # ---- where the norm stands ----
    _several(
        "the norm in another place", "behind the addition, as in 2017, with the weights of a stack that has it in front",
        (decoder, "BLOCKS[config.norm][0]", 'BLOCKS["post"][0]'), (decoder, "BLOCKS[config.norm][1]", 'BLOCKS["post"][1]'),
        part="stack", page="stack/06a-block",
    ),
    _several(
        "the last norm forgotten", "a pre-norm stack ends in a sum, which one more norm must bring to size",
        (decoder, "if config.norm_position.last else (x, None)", "if False else (x, None)"),
        (decoder, "return {name: grads[name] for", "return {name: grads[name] if name in grads else np.zeros(config.d_model) for"),
        part="stack", page="stack/06a-block",
    ),
    _one(
        "pre-norm: the branch's path dropped", "x + f(norm(x)) taken for x",
        layers.pre_norm_block_backward, 'record("input", du + dnorm)', 'record("input", du)', part="stack", page="stack/06a-block",
    ),
    _one(
        "pre-norm: the residual path around attention dropped", "x + f(norm(x)) taken for f(norm(x))",
        layers.pre_norm_block_backward, 'record("input", du + dnorm)', 'record("input", dnorm)', part="stack", page="stack/06a-block",
    ),
    _one(
        "pre-norm: the residual path around the network dropped", "x + f(norm(x)) taken for f(norm(x))",
        layers.pre_norm_block_backward, 'record("residual_1", dy + dnorm)', 'record("residual_1", dnorm)', part="stack", page="stack/06a-block",
    ),
    _one(
        "tied weights: the output layer's share dropped, in a decoder stack", "the table was used twice",
        decoder, ' + output["w"].T', "", part="stack", page="stack/02a-tokens",
    ),
    # ---- around the step: KV cache ----
    _one(
        "positions start again after the prompt", "each call counts its tokens from 0",
        generation.places, "return steps + (", "return steps + 0 * (", kind="forward", part="KV cache",
    ),
    _one(
        "the causal mask aligned at the first key", "row 0 of the mask for the newest token, which then sees the oldest key alone",
        attention.attention_mask, "np.tri(t_q, t_k, t_k - t_q, dtype=bool)", "np.tri(t_q, t_k, dtype=bool)",
        kind="forward", part="KV cache", page="stack/10a-inference",
    ),
    _one(
        "padding in the past is read", "the mask of the prompt is not kept",
        generation.read_so_far, "(kv_cache.valid, new)", "(np.ones_like(kv_cache.valid), new)", kind="forward", part="KV cache",
    ),
    _one(
        "the next token from the padded end", "[:, -1], where each prompt ends at its own length",
        generation.with_cache, "last = logits[np.arange(len(tokens)), lengths - 1]", "last = logits[:, -1]", kind="forward", part="KV cache",
    ),
    _one(
        "keys and values exchanged in the cache", "two results stored in the wrong order",
        decoder, "past = None if kv_cache is None else (kv_cache.keys[i], kv_cache.values[i])",
        "past = None if kv_cache is None else (kv_cache.values[i], kv_cache.keys[i])", kind="forward", part="KV cache", page="stack/10a-inference",
    ),
    # ---- tiles ----
    _one(
        "tiles: the sums not rescaled", "a new peak, and the old sums still measured by the old one",
        tiled.online_softmax, "rescale = np.exp(running.peak - shift)", "rescale = np.ones_like(shift)", kind="forward", part="tiles",
    ),
    _one(
        "tiles: only the total rescaled", "the weighted sum of the values hangs on the old peak as well",
        tiled.online_softmax, "rescale * running.mixed", "running.mixed", kind="forward", part="tiles",
    ),
    _one(
        "tiles: the peak missing in the kept logarithm", "log Σ e^(s − peak) for log Σ e^s",
        tiled.tiled_attention, "logarithm = running.peak + np.log(", "logarithm = np.log(", part="tiles",
    ),
    _one(
        "tiles: softmax backward without its sum", "the sum over a row's keys goes over all tiles",
        tiled.tiled_attention_backward, "(dweights - along_y[:, :, rows])", "dweights", part="tiles",
    ),
    _one(
        "tiles: dV of the last block of queries alone", "= for +=",
        tiled.tiled_attention_backward, "dv[:, :, keys] +=", "dv[:, :, keys] =", part="tiles",
    ),
    _one(
        "tiles: 1/√d_k missing in dK", "S = QKᵀ/√d_k has two factors, and each needs it",
        tiled.tiled_attention_backward, "@ q[:, :, rows] * scale", "@ q[:, :, rows]", part="tiles",
    ),
    _one(
        "tiles: the tile on the diagonal skipped", "≥ for >",
        tiled._future, "keys.start > rows.stop - 1", "keys.start >= rows.stop - 1", kind="forward", part="tiles",
    ),
    _one(
        "tiles: the mask from the tile's own corner", "every tile masked as if it stood on the diagonal",
        tiled._tile_scores, "first_key_hidden - 1 - keys.start", "0", kind="forward", part="tiles",
    ),
    # ---- LoRA ----
    _one(
        "LoRA: α for α/r", "the update grows with its rank",
        lora.lora, "scale = alpha / a.shape[1]", "scale = alpha", kind="forward", part="LoRA",
    ),
    _one(
        "LoRA: db without its scale", "the scale stands in front of both",
        lora.lora_backward, "db = scale * (", "db = (", part="LoRA",
    ),
    _one(
        "LoRA: the update's path dropped", "x was used twice",
        lora.lora_backward, "return via_frozen + via_update", "return via_frozen", part="LoRA",
    ),
    _one(
        "LoRA: da without its scale", "the scale stands in front of both",
        lora.lora_backward, 'scale * (dy @ b.T)', "dy @ b.T", part="LoRA",
    ),
    _one(
        "LoRA: merged without its scale", "w + ab for w + (α/r) ab",
        lora.merge, "alpha / a.shape[1] * (a @ b)", "(a @ b)", kind="forward", part="LoRA",
    ),
    # ---- sampling ----
    _one(
        "temperature multiplied", "z · T for z/T: hot where it should be cold",
        sampling.probabilities, ") / temperature", ") * temperature", kind="forward", part="sampling",
    ),
    _one(
        "top-p without the token that reaches it", "the sum stays below p, and may be empty",
        sampling._mass_mask, "before < mass * (1 - rounding)", "before + sorted_p <= mass", kind="forward", part="sampling",
    ),
    _one(
        "top-k keeps the least likely", "an ascending sort read from its front",
        sampling.top_k_mask, "_descending(p)[..., :k]", "_descending(p)[..., -k:]", kind="forward", part="sampling",
    ),
    _one(
        "top-p of the whole after top-k", "p is to be reached among what top-k left",
        sampling.probabilities, "_mass_mask(p, top_p,", "_mass_mask(softmax(scaled)[0], top_p,", kind="forward", part="sampling",
    ),
    _one(
        "cut without being brought to 1 again", "what is left sums to less than 1",
        sampling.probabilities, "p, _ = softmax(scaled, _mass_mask(p, top_p, np.argsort(-np.where(p > 0, logits, -np.inf), axis=-1, kind=\"stable\")))",
        "p = p * _mass_mask(p, top_p, np.argsort(-np.where(p > 0, logits, -np.inf), axis=-1, kind=\"stable\"))", kind="forward", part="sampling",
    ),
    # ---- preferences ----
    _one(
        "chosen and rejected exchanged", "the worse answer is taught",
        preference.bradley_terry, "margin = chosen - rejected", "margin = rejected - chosen", kind="forward", part="preferences",
    ),
    _one(
        "the mean over pairs forgotten in the slope", "the gradient of the sum beside the value of the mean",
        preference.bradley_terry, "-_sigmoid(-margin) / len(margin)", "-_sigmoid(-margin)", part="preferences",
    ),
    _one(
        "DPO: β missing in the slope", "β stands before the log-likelihood",
        preference.dpo, "(beta * slope, -beta * slope)", "(slope, -slope)", part="preferences",
    ),
    _one(
        "DPO: the reference forgotten", "log π for log(π/π_ref)",
        preference.dpo, "(chosen - reference_chosen)", "chosen", "(rejected - reference_rejected)", "rejected", kind="forward", part="preferences",
    ),
    _several(
        "an answer's likelihood averaged", "a mean over its tokens for their sum, so that length no longer counts",
        (preference.log_likelihood, "np.where(mask, right, 0).sum(axis=1)", "np.where(mask, right, 0).sum(axis=1) / mask.sum(axis=1)"),
        (preference.log_likelihood_backward, "np.where(mask, dy[:, None], 0)", "np.where(mask, dy[:, None] / mask.sum(axis=1, keepdims=True), 0)"),
        part="preferences",
    ),
    _one(
        "the answer's first token not scored", "the target at the prompt's last place is the answer's first token",
        preference._answers, "mask[i, len(prompt) - 1 :", "mask[i, len(prompt) :", kind="forward", part="preferences",
    ),
    _one(
        "the mean reward not taken away", "π_k A_k for π_k (A_k − J)",
        preference.expected_reward, "p * (advantage - value)", "p * advantage", part="preferences",
    ),
    # ---- quantisation ----
    _one(
        "the scale from the largest, not the largest in size", "a large negative number has no place",
        quantize.quantize, "largest = np.abs(x).max(", "largest = x.max(", kind="forward", part="quantisation",
    ),
    _one(
        "cut off for rounded", "astype(int) rounds towards 0",
        quantize.quantize, "np.rint(", "np.trunc(", kind="forward", part="quantisation",
    ),
    _one(
        "128 for 127", "the largest number then wraps to −128",
        quantize._scale, "exact = largest / LARGEST", "exact = largest / (LARGEST + 1)", kind="forward", part="quantisation",
    ),
    _one(
        "one scale for the whole matrix", "a small column has to make do with the largest one's scale",
        quantize.quantize_params, "axis=-1 if name.endswith(\"embedding\") else 0", "axis=None",
        kind="forward", part="quantisation",
    ),
    _one(
        "a product without its scale", "the small numbers stand for themselves",
        quantize.quantized_linear, " * w.scale[0]", "", kind="forward", part="quantisation",
    ),
)  # fmt: skip

MISTAKES = {mistake.name: mistake for mistake in _ALL}
