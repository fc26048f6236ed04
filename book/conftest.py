"""What every page must keep to while nbval runs it: at most 1 GiB of memory, and a few seconds of computing."""

import os
from pathlib import Path

import pytest

MEMORY = 1 << 30  # bytes: what a free cloud notebook leaves
SECONDS = 15  # of a processor's time, start included; the aim is 10 on two cores
MORE_SECONDS = {"08a-training-loop.ipynb": 60}  # a model is trained there for real


def peak_memory(pid):
    """The most memory that a process has held, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def computing_time(pid):
    """The processor time that a process has used, in seconds. It does not depend on what else the machine does."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    result = yield
    kernel = getattr(item.parent, "kernel", None)
    if kernel and Path("/proc/self/stat").exists():  # elsewhere the pages are run, but not measured
        page, pid = item.parent.name, kernel.km.provisioner.pid
        memory, seconds = peak_memory(pid), computing_time(pid)
        assert memory <= MEMORY, f"{page} has held {memory / 2**20:.0f} MiB by this cell; a page may hold {MEMORY >> 20}"
        allowed = MORE_SECONDS.get(page, SECONDS)
        assert seconds <= allowed, f"{page} has computed for {seconds:.0f} s by this cell; it may take {allowed}"
    return result
