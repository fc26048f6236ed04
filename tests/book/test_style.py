"""One style for all code (the rules stand in pyproject.toml)."""

import subprocess
import sys
from pathlib import Path


def test_ruff_has_nothing_to_say(root):
    run = subprocess.run([Path(sys.executable).with_name("ruff"), "check", "--output-format", "concise", "."], cwd=root, text=True, capture_output=True)
    assert run.returncode == 0, run.stdout
