"""Settings that all tests share."""

from hypothesis import settings

# The same examples in every run, and no clock: a slow machine is not a failure.
settings.register_profile("book", deadline=None, derandomize=True, database=None, max_examples=25)
settings.load_profile("book")

# Whole files go to the workers, in this order and then as collected: the longest first, so that none is left over for one worker at the end.
# The first builds the site; the others that look at it come when it stands.
LONGEST = ("book/test_pages.py", "book/test_kernels.py", "examples/test_translate_parallel.py", "sympy/test_forward_mode.py", "book/test_live.py")


def pytest_collection_modifyitems(items):
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get("/".join(item.path.parts[-2:]), len(LONGEST)))
