"""Run the pages as other processors would: under other kernels of NumPy and PyTorch, and with other numbers of threads.

    python book/_tools/kernels.py [--kernels NAME ...] [-n WORKERS] [PAGE or FOLDER ...]     all pages unless named

A matrix product adds in an order of its own on every processor, and its last digits differ. One machine can take the part of several: OpenBLAS,
NumPy and PyTorch each choose their code when they are loaded, and can be told to. Each page is compared with its stored outputs; the exit status is
1 if one differs anywhere.
"""

import argparse
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What OpenBLAS is told, which flags of the processor its code needs, what PyTorch is told, and what of NumPy's own code is left out
X86 = {
    "Nehalem": ("Nehalem", "sse4_2", "default", lambda feature: True),
    "Haswell": ("Haswell", "avx2", "avx2", lambda feature: "512" in feature or "V4" in feature),
    "Zen": ("Zen", "avx2", "avx2", lambda feature: "512" in feature),
    "SkylakeX": ("SkylakeX", "avx512dq", "avx512", lambda feature: False),
}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# Pages that train, or draw float32 numbers by PyTorch: where rounding has the time to grow. The ordinary test runs them a second time, under the first kernel.
TRAINING = (
    "stack/08a-training-loop", "stack/09-breakthroughs", "stack/11-adaptation", "stack/08b-symptoms", "stack/08c-memory-and-task",
    "stack/08d-learning", "step/26-training", "stack/02b-objective", "stack/09b-preferences", "stack/11b-lora", "stack/13-checks",
    "stack/14-continue", "step/14-nudge", "step/25-adam", "workshop/compare", "workshop/symmetry", "learn/01-translate",
    "learn/03-what-each-part-is-worth", "intro", "appendix/kill-matrix",
)  # fmt: skip


def kernels() -> dict[str, dict[str, str]]:
    """The environments that this machine can run, by name; the one that differs most from a new processor first."""
    found = {}
    if platform.machine().lower() in ("x86_64", "amd64"):
        flags, features = _processor_flags(), _numpy_features()
        for name, (blas, needs, torch, left_out) in X86.items():
            if needs in flags:
                disabled = " ".join(filter(left_out, features))
                found[name] = {"OPENBLAS_CORETYPE": blas, "ATEN_CPU_CAPABILITY": torch} | ({"NPY_DISABLE_CPU_FEATURES": disabled} if disabled else {})
    found = {name: settings | dict.fromkeys(THREADS, "1") for name, settings in found.items()}
    return found | {"two threads": dict.fromkeys(THREADS, "2")}


def command(pages, workers=0) -> list[str]:
    """What runs the pages against their stored outputs."""
    options = ["--nbval", "--nbval-current-env", f"--nbval-sanitize-with={ROOT / 'nbval.cfg'}", "--nbval-cell-timeout=2400"]
    options += ["-q", "-p", "no:cacheprovider", "-n", str(workers), "--dist", "loadfile", "--rootdir", str(ROOT)]
    return [sys.executable, "-m", "pytest", *options, *map(str, pages)]


def run(name, pages, workers=0) -> subprocess.CompletedProcess:
    return subprocess.run(command(pages, workers), cwd=ROOT, env=os.environ | kernels()[name], text=True, capture_output=True)


def _processor_flags():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux: no more than every x86-64 processor of the last fifteen years has
        return {"sse4_2"}
    return set(next((line for line in lines if line.startswith("flags")), "").split())


def _numpy_features():
    """NumPy's own code for this processor beyond its baseline, as NPY_DISABLE_CPU_FEATURES takes it."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return [feature for feature in __cpu_dispatch__ if __cpu_features__.get(feature)]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", default=[ROOT / "book"], help="notebooks or folders (all pages)")
    parser.add_argument("--kernels", nargs="+", choices=kernels(), default=list(kernels()), help="which to run (all that this machine can)")
    parser.add_argument("-n", "--workers", default="0", help="how many pages at a time (one)")
    arguments = parser.parse_args(argv)
    pages = [Path(page).resolve() for page in arguments.pages]
    failed = []
    for name in arguments.kernels:
        done = run(name, pages, arguments.workers)
        print(f"{name}: {done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr}", flush=True)
        if done.returncode:
            failed.append(name)
            print(done.stdout, flush=True)
    sys.exit(f"pages differ under {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
