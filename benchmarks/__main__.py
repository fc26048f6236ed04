"""`python -m benchmarks` runs every measured comparison."""

from . import step

step.main()
