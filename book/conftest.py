"""For nbval: kernels that start at once, and what every page must keep to while it runs: at most 1 GiB of memory.

Time is no test: `make bench` says what a page costs.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from jupyter_client.provisioning import local_provisioner

MEMORY = 1 << 30  # bytes: what a free cloud notebook leaves
PATIENCE = 600  # seconds that a kernel may take to start, and to hand over what it has already computed: nbval's 60 and 5 are too few on a busy machine

WARM = Path(__file__).parent / "_tools/warm.py"
_launch_kernel = local_provisioner.launch_kernel


def pytest_configure(config):
    config.option.nbval_kernel_startup_timeout = PATIENCE
    if WARM.is_file():
        with contextlib.suppress(AttributeError, OSError):  # not Linux, or an old one
            os.close(os.pidfd_open(os.getpid()))
            local_provisioner.launch_kernel = launch_kernel


class Fork:
    """A process that another one has forked, with what jupyter_client asks of a subprocess.Popen."""

    stdin = stdout = stderr = None

    def __init__(self, pid):
        self.pid, self.handle = pid, os.pidfd_open(pid)

    def wait(self, timeout=None):
        return 0 if select.select([self.handle], [], [], timeout)[0] else None

    def poll(self):
        return self.wait(0)

    def send_signal(self, number):
        os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


@cache
def warm():
    return subprocess.Popen([sys.executable, WARM], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def launch_kernel(command, cwd=None, env=None, **settings):
    """jupyter_client's, but for kernels of this Python (see _tools/warm.py)."""
    if command[:3] != [sys.executable, "-m", "ipykernel_launcher"]:
        return _launch_kernel(command, cwd=cwd, env=env, **settings)
    server = warm()
    print(json.dumps({"cwd": str(cwd or Path.cwd()), "env": dict(env or os.environ), "argv": command[2:]}), file=server.stdin, flush=True)
    return Fork(int(server.stdout.readline()))


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
