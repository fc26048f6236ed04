"""The examples are imported as a reader imports them: with examples/ on the path."""

import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
for folder in (EXAMPLES, Path(__file__).resolve().parent):  # the second for translate_runs, which two test files share
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@pytest.fixture(scope="session")
def database(tmp_path_factory):
    """The path of a freshly built shop."""
    from assistant import build

    return build(tmp_path_factory.mktemp("shop") / "shop.sqlite")


@pytest.fixture(scope="session")
def connection(database):
    """A read-only connection, as the application has it."""
    from assistant import open_shop

    connection = open_shop(database)
    yield connection
    connection.close()


@pytest.fixture(scope="session")
def assistant(database):
    from assistant import Assistant
    from assistant.evaluate import MemoryDesk

    return Assistant(database, desk=MemoryDesk())
