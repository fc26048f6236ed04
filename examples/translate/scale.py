"""What a training step costs: operations, memory and communication, by formula, and as counted on the real thing.

torchrun --standalone --nproc-per-node=2 -m examples.translate.scale      stores what two processes hand to one another in results/traffic.json
"""

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.flop_counter import FlopCounterMode

from byhand import Config
from byhand.parameters import encoder_decoder_shapes
from byhand.torch.loss import cross_entropy
from byhand.torch.transformer import Transformer

from . import parallel
from .results import RESULTS, write


def parameters(config: Config) -> int:
    """How many weights the model has."""
    return sum(math.prod(shape) for shape in encoder_decoder_shapes(config).values())


def operations(config: Config, batch: int, t_s: int, t_t: int) -> int:
    """Multiplications and additions of one training step's matrix products.

    Forward and backward, attention computed in full. A product of (m, k) and (k, n)
    takes 2·m·k·n. An encoder layer has 4d² + 2d·d_ff weights for each token and, for
    scores and mix, 4·t·d·t; a decoder layer the same and once more attention, whose
    keys and values come from the source. Backward takes each product twice.
    """
    d, d_ff, n, V = config.d_model, config.d_ff, config.n_layers, config.target_vocab
    width = config.n_heads * config.d_k  # of queries and keys together; values alike
    encoder = 2 * t_s * (4 * d * width + 2 * d * d_ff) + 4 * t_s * t_s * width
    decoder = 2 * t_t * (6 * d * width + 2 * d * d_ff) + 2 * t_s * 2 * d * width
    decoder += 4 * t_t * (t_t + t_s) * width
    return 3 * batch * (n * (encoder + decoder) + 2 * t_t * d * V)


def counted_operations(config: Config, batch: int, t_s: int, t_t: int) -> int:
    """The same, as PyTorch counts them while the step runs."""
    module, inputs = _step(config, batch, t_s, t_t)
    module.plain_attention = True  # the fused kernel is not counted
    with FlopCounterMode(display=False) as counter:
        cross_entropy(module(*inputs[:2]), inputs[2]).backward()
    return counter.get_total_flops()


def kept(config: Config, batch: int, t_s: int, t_t: int) -> int:
    """Numbers that forward keeps for backward, attention fused, no padding.

    The rows that each operation needs again. Encoder layer: its input, q, k, v, the
    heads' mix, and for each norm the sum before and the rows after it: 8 rows of d for
    each token; the feed-forward's hidden row of d_ff; two numbers a norm and one a head
    and query. A decoder layer has three more rows of d and a third norm's two, with k
    and v of the source. Last: the memory, which every decoder layer reads, the rows
    into the output layer, its logits as probabilities, and one number of the loss.
    """
    d, d_ff, h, n = config.d_model, config.d_ff, config.n_heads, config.n_layers
    encoder = t_s * (8 * d + d_ff + h + 4)
    decoder = t_t * (12 * d + d_ff + 2 * h + 6) + t_s * 2 * d
    last = t_s * d + t_t * (d + config.target_vocab)
    return batch * (n * (encoder + decoder) + last) + 1


def counted_kept(config: Config, batch: int, t_s: int, t_t: int) -> int:
    """The same, as autograd hands it to a hook: each piece of memory once, weights left out."""
    module, inputs = _step(config, batch, t_s, t_t)
    own = {p.untyped_storage().data_ptr() for p in module.parameters()}
    alive, sizes = [], {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own and tensor.is_floating_point():
            alive.append(tensor)  # so that its place in memory is not given to another
            sizes[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = cross_entropy(module(*inputs[:2]), inputs[2])
    del loss
    return sum(sizes.values())


def _step(config, batch, t_s, t_t):
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(config.source_vocab, (batch, t_s), generator=generator)
    target = torch.randint(config.target_vocab, (batch, t_t + 1), generator=generator)
    return Transformer(config), (source, target[:, :-1], target[:, 1:])


def state_bytes(n: int, how: str = "float32") -> dict[str, int]:
    """Bytes for n weights, their gradients and Adam's m and v; "mixed": bfloat16 weights and gradients beside a float32 master copy."""
    if how == "float32":
        return {"weights": 4 * n, "gradients": 4 * n, "Adam": 8 * n}
    if how == "mixed":
        return {"weights": 2 * n, "master copy": 4 * n, "gradients": 2 * n, "Adam": 8 * n}
    raise ValueError(f"how was {how!r}; it must be 'float32' or 'mixed'")


def sent(kind: str, n_bytes: float, processes: int) -> float:
    """Bytes that each process sends in a ring: (p − 1)/p of the array to gather it or to scatter its sum, twice that to add it up for all.

    Source: Patarasuk and Yuan 2009.
    """
    share = (processes - 1) / processes
    if kind not in ("all-reduce", "all-gather", "reduce-scatter"):
        raise ValueError(f"kind was {kind!r}; it must be 'all-reduce', 'all-gather' or 'reduce-scatter'")
    return (2 if kind == "all-reduce" else 1) * share * n_bytes


def data_parallel(n_bytes: float, processes: int) -> float:
    """Each process sends so much in a step: all gradients are added up."""
    return sent("all-reduce", n_bytes, processes)


def sharded(n_bytes: float, processes: int, root_bytes: float = 0.0) -> float:
    """Weights are gathered for forward and again for backward (those of the root group, which stay, once), gradients scattered."""
    return 2 * sent("all-gather", n_bytes - root_bytes, processes) + sent("all-gather", root_bytes, processes) + sent("reduce-scatter", n_bytes, processes)


def tensor_parallel(config: Config, batch: int, t_s: int, t_t: int, processes: int, size: int = 4) -> float:
    """Two sums of rows for each encoder layer and three for each decoder layer, in forward and again in backward.     (Shoeybi et al. 2019)"""
    rows = config.n_layers * batch * (2 * t_s + 3 * t_t) * config.d_model
    return 2 * sent("all-reduce", size * rows, processes)


def pipeline(config: Config, batch: int, t: int, size: int = 4) -> float:
    """Rows handed to the next stage, and their gradients back."""
    return 2 * size * batch * t * config.d_model


def bubble(stages: int, microbatches: int) -> float:
    """The share of the time in which a stage of a pipeline waits: (p − 1)/(m + p − 1).     (Huang et al. 2019)"""
    return (stages - 1) / (microbatches + stages - 1)


# ---- counted on two processes -----------------------------------------------


@contextlib.contextmanager
def counting() -> Iterator[dict[str, int]]:
    """Bytes of the whole arrays that pass through PyTorch's collectives."""
    seen = {"all-gather": 0, "reduce-scatter": 0}
    # PyTorch has renamed them; FSDP2 calls one or the other
    names = {"all-gather": ("all_gather_into_tensor", "all_gather_single"), "reduce-scatter": ("reduce_scatter_tensor", "reduce_scatter_single")}
    original = {name: getattr(dist, name) for some in names.values() for name in some if hasattr(dist, name)}

    def counted(kind, call):
        def instead(*given, **named):
            # the larger of the two tensors is the whole array, the other a process's share
            seen[kind] += max(one.numel() * one.element_size() for one in (*given, *named.values()) if isinstance(one, torch.Tensor))
            return call(*given, **named)

        return instead

    try:
        for kind, some in names.items():
            for name in some:
                if name in original:
                    setattr(dist, name, counted(kind, original[name]))
        yield seen
    finally:
        for name, call in original.items():
            setattr(dist, name, call)


def traffic(team: parallel.Team, config: Config) -> dict:
    """What one step hands over: DDP's gradients, FSDP2's weights and gradients; and the bytes of a process's own share."""
    found: dict = {"processes": team.world, "weights": parameters(config)}
    module, inputs = _step(config, 4, 6, 5)
    model, buckets = parallel.wrap(module, "ddp", team), []

    def hook(state, bucket):
        buckets.append(bucket.buffer().numel() * bucket.buffer().element_size())
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0] / team.world)

    model.register_comm_hook(None, hook)
    cross_entropy(model(*inputs[:2]), inputs[2]).backward()
    found["ddp"] = {"all-reduce": sum(buckets), "own weights": sum(p.numel() for p in module.parameters())}
    module, inputs = _step(config, 4, 6, 5)
    root = sum(p.numel() for name, p in module.named_parameters() if not name.startswith(("encoder", "decoder")))
    model = parallel.wrap(module, "fsdp", team)
    with counting() as seen:
        cross_entropy(model(*inputs[:2]), inputs[2]).backward()
    found["fsdp"] = seen | {"own weights": sum(p.to_local().numel() for p in module.parameters()), "root": root}
    return found


CONFIG = Config(64, 4, 128, 2, source_vocab=220, target_vocab=246, tied=True)  # every first axis is even, so that nothing is padded


def main() -> None:
    with parallel.team("cpu") as team:
        found = traffic(team, CONFIG)
        if team.rank == 0:
            write(Path(RESULTS) / "traffic.json", found)


if __name__ == "__main__":
    main()
