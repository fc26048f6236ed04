"""Settings that all tests share."""

from hypothesis import settings

# The same examples in every run, and no clock: a slow machine is not a failure.
settings.register_profile("book", deadline=None, derandomize=True, database=None, max_examples=25)
settings.load_profile("book")
