"""`python -m byhand.live [file]` writes what the live page reads."""

import sys
from pathlib import Path

from .data import script

path = Path(sys.argv[1] if len(sys.argv) > 1 else "book/_static/live/step.data.js")
path.parent.mkdir(parents=True, exist_ok=True)
path.write_text(script(), encoding="utf-8")
print(f"{path}: {path.stat().st_size:,} bytes")
