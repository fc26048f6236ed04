"""One process or many: PyTorch's DistributedDataParallel and FSDP2 under torchrun, and nothing of our own."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

WHOLE = StateDictOptions(full_state_dict=True)  # every process gives, and is given, whole tensors


@dataclass(frozen=True)
class Team:
    """The processes that train one model together; rank 0 writes."""

    rank: int
    world: int
    device: torch.device

    def sums(self, *values: float) -> list[float]:
        """The sum of each value over the processes."""
        if self.world == 1:
            return list(map(float, values))
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """The tensor of every process, all of one shape, on the CPU."""
        if self.world == 1:
            return [tensor.cpu()]
        parts = [torch.empty_like(tensor, device=self.device) for _ in range(self.world)]
        dist.all_gather(parts, tensor.to(self.device))
        return [part.cpu() for part in parts]

    def agree(self, value: float) -> float:
        """Rank 0's value, for all."""
        return self.sums(value if self.rank == 0 else 0.0)[0]

    def barrier(self) -> None:
        """Wait for all. A sum of nothing, so that it needs no device of its own."""
        self.sums(0.0)


@contextlib.contextmanager
def team(device: str | None = None) -> Iterator[Team]:
    """The team that torchrun started, or a team of one; taken down at the end.

    Raises ValueError for a device that is not there.
    """
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        raise ValueError(f"device was {device!r}; PyTorch knows no such device") from error
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"device was {device!r}; it must be cpu or cuda")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device was {device!r}; PyTorch finds no CUDA device here")
    if not dist.is_torchelastic_launched():
        yield Team(0, 1, torch.device(device))
        return
    rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    own = torch.device("cuda", local) if kind == "cuda" else torch.device("cpu")
    if kind == "cuda":
        torch.cuda.set_device(own)
    dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    try:
        yield Team(rank, world, own)
        dist.barrier()  # nobody leaves while another still waits for a message
    finally:
        dist.destroy_process_group()


def wrap(module: nn.Module, how: str, members: Team) -> nn.Module:
    """What is called in training: the module itself on one process; otherwise wrapped ("ddp") or sharded in place ("fsdp").

    Make the optimizer after it: FSDP2 puts new parameters in place of the old ones.
    """
    if members.world == 1:
        return module
    if how == "ddp":
        return DistributedDataParallel(module, device_ids=[members.device.index] if members.device.type == "cuda" else None)
    mesh = dist.init_device_mesh(members.device.type, (members.world,))
    for layer in (*module.encoder, *module.decoder):  # each layer is gathered when its turn comes, and let go again
        fully_shard(layer, mesh=mesh)
    return fully_shard(module, mesh=mesh)  # the embeddings and the output in one group, since a tied table serves both


def without_sync(model: nn.Module, last: bool):
    """Around forward and backward of a microbatch: gradients are exchanged after the last one only."""
    if isinstance(model, DistributedDataParallel):
        return contextlib.nullcontext() if last else model.no_sync()
    if hasattr(model, "set_requires_gradient_sync"):  # FSDP2
        model.set_requires_gradient_sync(last)
    return contextlib.nullcontext()


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """A sharded tensor put together; every process must ask."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def weights(module: nn.Module) -> dict[str, torch.Tensor]:
    """Every parameter, whole, on the CPU, under its name; a copy."""
    return {name: tensor.detach().cpu().clone() for name, tensor in get_model_state_dict(module, options=WHOLE).items()}


def moments(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Adam's step count, m and v of every parameter, whole, under `step.NAME`, `exp_avg.NAME` and `exp_avg_sq.NAME`."""
    state = get_optimizer_state_dict(module, optimizer, options=WHOLE)["state"]
    return {f"{part}.{name}": whole(value).detach().cpu().clone() for name, parts in state.items() for part, value in parts.items()}


def restore(module: nn.Module, optimizer: torch.optim.Optimizer, weight: dict[str, torch.Tensor], moment: dict[str, torch.Tensor]) -> None:
    """Put whole weights and moments back, sharded or not."""
    set_model_state_dict(module, weight, options=WHOLE)
    state: dict[str, dict[str, torch.Tensor]] = {}
    for key, value in moment.items():
        part, name = key.split(".", 1)
        state.setdefault(name, {})[part] = value
    groups = get_optimizer_state_dict(module, optimizer, options=WHOLE)["param_groups"]
    set_optimizer_state_dict(module, optimizer, {"state": state, "param_groups": groups}, options=WHOLE)
