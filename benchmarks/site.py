"""What the site costs: processor seconds to build it from the stored outputs, and its size.

python -m benchmarks site
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
KINDS = {"pages": (".html",), "scripts and styles": (".js", ".css"), "fonts": (".woff", ".woff2", ".ttf"), "pictures": (".svg", ".png", ".jpg", ".ico")}


def sizes(site: Path) -> dict[str, int]:
    """Bytes by kind of file."""
    found = dict.fromkeys([*KINDS, "the rest"], 0)
    for path in site.rglob("*"):
        if path.is_file():
            found[next((kind for kind, endings in KINDS.items() if path.suffix in endings), "the rest")] += path.stat().st_size
    return found


def report() -> dict:
    with tempfile.TemporaryDirectory() as folder:
        before = os.times()
        command = [Path(sys.executable).with_name("jupyter-book"), "build", ".", "--path-output", folder, "--keep-going", "-n", "-q", "--all"]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        after = os.times()
        site = Path(folder) / "_build/html"
        seconds = after.children_user + after.children_system - before.children_user - before.children_system
        found = {"seconds": seconds, "files": sum(path.is_file() for path in site.rglob("*")), "bytes": sizes(site)}
    shown = ", ".join(f"{kind} {size / 1e6:.1f}" for kind, size in found["bytes"].items())
    print(f"\nthe site: built in {seconds:.0f} s; {found['files']} files, MB: {shown}")
    return found
