"""`python -m benchmarks` runs every measured comparison, and weighs every page."""

from . import pages, step

step.main([])
print()
pages.main([])
