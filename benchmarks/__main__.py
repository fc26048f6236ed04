"""`python -m benchmarks` runs every measured comparison, and weighs every page."""

from . import pages, step, translate

step.main([])
print()
translate.main([])
print()
pages.main([])
