"""One fork server of whole bots for a session: the imports of the product and of both libraries are paid once."""

from collections.abc import Iterator

import pytest

from tests.crash.processes import Forks, fork_server


@pytest.fixture(scope="session")
def bots() -> Iterator[Forks]:
    with fork_server("tests.platform.crash_child") as opened:
        yield opened
