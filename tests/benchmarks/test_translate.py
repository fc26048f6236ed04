import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_benchmark_runs_and_reports():
    done = subprocess.run([sys.executable, "benchmarks/translate.py", "--seconds", "0"], cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    step, whole, gpu = done.stdout.splitlines()
    assert "ms a step" in step and "tokens a second" in step and "6000 steps" in whole and "GPU" in gpu
