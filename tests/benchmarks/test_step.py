import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_benchmark_runs_and_reports():
    command = [sys.executable, "benchmarks/step.py", "--seconds", "0", "--sizes", "toy"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    title, heads, toy = done.stdout.splitlines()
    assert "one thread" in title and heads.split() == ["size", "NumPy", "PyTorch", "ratio", "aim", "steps"]
    assert toy.split()[0] == "toy" and int(toy.split()[-1]) == 5
