"""Document 2, sections 9 and 11: what the breakthroughs changed, and adaptation."""

import numpy as np

from byhand import toy
from byhand.numpy import attention, decoder, lora, preference

from . import claim, extra, named
from .samples import draw, largest, letters, recorded


# ---- section 9 ----
@claim("d2-s9-fixed-vector")
def one_context_for_each_query():
    queries, source = draw(1, 3, 6), draw(1, 5, 6)
    _, stages = recorded(attention.multi_head_attention, queries, source, *(draw(6, 6, seed=i) for i in range(4)), n_heads=1)
    first, second, third = stages.mixed[0, 0]
    return {"attention_context_changes_per_query": min(largest(first - second), largest(second - third), largest(first - third)) > 0.01}


@claim("d2-s9-parallel")
def all_positions_at_once():
    case = toy.decoder()
    tokens = case.decoder_input[:1]
    at_once = decoder.forward(case.params, case.config, tokens).logits[0]
    one_by_one = [decoder.forward(case.params, case.config, tokens[:, : t + 1]).logits[0, -1] for t in range(tokens.shape[1])]
    return {"all_positions_in_one_pass_equals_position_by_position": largest(at_once - one_by_one) < 1e-12}


@named
def dpo_loss(chosen, rejected, reference_chosen=-5.0, reference_rejected=-4.0):
    """DPO's loss for one pair, from four log-likelihoods."""
    return preference.dpo(*(np.array([float(value)]) for value in (chosen, rejected, reference_chosen, reference_rejected)), beta=0.5)[0]


# ---- section 11: retrieval ----
@claim("d2-s11-rag-no-backprop")
def answering_from_documents():
    """The nearest two of four documents are read by the answer's query, as at inference: nothing is recorded for a gradient."""
    import torch

    from byhand.torch.attention import attention

    documents = torch.tensor(draw(4, 6), requires_grad=True)
    question = torch.tensor(draw(1, 6))
    with torch.no_grad():
        found = documents[(documents @ question[0]).topk(2).indices]
        answer = attention(question[None, None], found[None, None], found[None, None])
    return {"answer_has_graph": answer.requires_grad or answer.grad_fn is not None, "documents_received_gradient": documents.grad is not None}


# ---- section 11: LoRA ----
SIZES = {"d_in": 6, "d_out": 5, "r": 2}
ALPHA = 3.0


def update():
    """W₀, A and B as the document has them, for columns: the package's matrices, transposed."""
    d_in, d_out, r = SIZES.values()
    parts = lora.init(d_in, d_out, r)
    return draw(d_in, d_out).T, parts["a"].T, draw(*parts["b"].shape).T


@claim("d2-lora-shapes")
def shapes_of_the_update():
    w_0, a, b = update()
    return [letters(matrix.shape, SIZES) for matrix in (a, b, w_0)]


@claim("d2-lora-formula")
def updated_matrix():
    w_0, a, b = update()
    w = w_0 + ALPHA / 2 * b @ a
    x = draw(3, 6)
    y, _ = lora.lora(x, w_0.T, a.T, b.T, ALPHA)
    return largest(y.T - w @ x.T, lora.merge(w_0.T, a.T, b.T, ALPHA) - w.T)


@extra("d2-lora-formula")
def rank_and_start():
    w_0, a, b = update()
    merged = lora.merge(w_0.T, a.T, b.T, ALPHA)
    at_the_start = lora.merge(w_0.T, **lora.init(6, 5, 2), alpha=ALPHA)
    return {"rank_of_update": np.linalg.matrix_rank(merged - w_0.T), "zero_b_leaves_w0": np.array_equal(at_the_start, w_0.T)}


@named
def lora_counts(d_in, d_out, rank):
    return lora.counts(d_in, d_out, rank)._asdict()


@claim("d2-lora-count")
def trainable_parameters():
    d_in, d_out, r = SIZES.values()
    return max(abs(array_count - r * (d_in + d_out)) for array_count in (lora.counts(d_in, d_out, r).lora, sum(m.size for m in update()[1:])))


@claim("d2-lora-full-count")
def parameters_of_the_matrix():
    d_in, d_out, r = SIZES.values()
    return max(abs(array_count - d_in * d_out) for array_count in (lora.counts(d_in, d_out, r).full, update()[0].size))


@claim("d2-lora-not-eliminate")
def base_matrix_in_the_forward_pass():
    w_0, a, b = update()
    x = draw(3, 6)
    y, cache = lora.lora(x, w_0.T, a.T, b.T, ALPHA)
    alone, _ = lora.lora(x, 0 * w_0.T, a.T, b.T, ALPHA)
    return {"forward_still_needs_w0_values": cache.w.size, "output_without_w0_differs": largest(y - alone) > 0.1}
