"""One fork server for a session: the imports of the whole product are paid once."""

from collections.abc import Iterator

import pytest

from tests.crash.processes import Forks, fork_server


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    with fork_server() as opened:
        yield opened
