"""What the first cell of a notebook does on Colab once the book is there: it installs the package and what the pages need.

    python book/_tools/colab.py

The package is copied, not linked: a linked one would only be found after a restart. NumPy and PyTorch stay as they are: they may be loaded
already, and a kernel does not survive a change under it. Where the book could not do with them, this says so and installs nothing.
"""

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
KEPT = ("numpy", "torch")


def installed():
    """{name: version} of what must not change."""
    found = {}
    for name in KEPT:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # pip may bring it
    return found


def pip(*arguments):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *arguments, f"{ROOT}[pages]"]
    return subprocess.run(command, text=True, capture_output=True)


def changes(kept):
    """What pip would do to them if it were free to: ['numpy 1.26.4 would become 2.4.6', ...]."""
    report = pip("--dry-run", "--report", "-")
    if report.returncode:
        return [report.stderr.strip()]
    planned = {item["metadata"]["name"].lower(): item["metadata"]["version"] for item in json.loads(report.stdout)["install"]}
    return [f"{name} {before} would become {planned[name]}" for name, before in kept.items() if planned.get(name, before) != before]


def main():
    kept = installed()
    with TemporaryDirectory() as folder:
        constraints = Path(folder, "kept.txt")
        constraints.write_text("".join(f"{name}=={is_version}\n" for name, is_version in kept.items()))
        run = pip("--constraint", str(constraints))
    if run.returncode:
        raise SystemExit(
            "\n".join(
                [
                    "The book does not run with what this runtime brings, and nothing was installed:",
                    *(f"    {line}" for line in changes(kept) or [run.stderr.strip()]),
                    f"To go on all the same, run:  %pip install {ROOT}[pages]  then Runtime > Restart session, and this cell again.",
                ]
            )
        )
    print("Ready.", ", ".join(f"{name} {is_version}" for name, is_version in kept.items()), "as they were.")


if __name__ == "__main__":
    main()
