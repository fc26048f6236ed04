"""What every page must keep to while nbval runs it: at most 1 GiB of memory. Time is no test: `make bench` says what a page costs."""

from pathlib import Path

import pytest

MEMORY = 1 << 30  # bytes: what a free cloud notebook leaves
PATIENCE = 600  # seconds that a kernel may take to start, and to hand over what it has already computed: nbval's 60 and 5 are too few on a busy machine


def pytest_configure(config):
    config.option.nbval_kernel_startup_timeout = PATIENCE


def peak_memory(pid):
    """The most memory that a process has held, in bytes; None where /proc does not say."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return None
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    if hasattr(item, "output_timeout"):
        item.output_timeout = PATIENCE
    result = yield
    kernel = getattr(item.parent, "kernel", None)
    memory = peak_memory(kernel.km.provisioner.pid) if kernel else None
    if memory is not None:
        assert memory <= MEMORY, f"{item.parent.name} has held {memory / 2**20:.0f} MiB by this cell; a page may hold {MEMORY >> 20}"
    return result
