"""Several ways of doing one thing timed in turn, so that whatever else the machine does falls on all alike; and how much memory each holds."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


def interleaved(ways: Mapping[str, Callable[[], object]], seconds: float, least: int = 5, warm: int = 2) -> dict[str, dict[str, float]]:
    """Median and minimum of the processor time that each way takes, in seconds, and how often each was timed."""
    for way in ways.values():
        for _ in range(warm):
            way()
    spent = {name: [] for name in ways}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(spent[next(iter(ways))]) < least:
        for name, way in ways.items():
            start = time.process_time()  # one thread: on an idle machine this is the clock's time, on a busy one it is steadier
            way()
            spent[name].append(time.process_time() - start)
    return {name: {"median": statistics.median(times), "min": min(times), "count": len(times)} for name, times in spent.items()}


def peak_memory(work: Callable[[], object]) -> float:
    """Bytes by which this process grows at most while it works. Linux alone says so; elsewhere NaN."""
    if not Path("/proc/self/clear_refs").exists():
        return float("nan")
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest level so far
    before = _kilobytes("VmRSS")
    kept = work()
    grown = 1024.0 * (_kilobytes("VmHWM") - before)
    del kept
    return grown


def in_a_fresh_process(module: str, *arguments: str) -> str:
    """What `python -m benchmarks.MODULE ARGUMENTS` prints, where memory given back is given back at once."""
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def _kilobytes(field):
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1])
