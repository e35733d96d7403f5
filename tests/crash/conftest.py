"""Fork servers for a session: the imports of the whole product are paid once."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.crash.processes import Forks, fork_server
from tests.crash.servers import Server, own_server


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    with fork_server() as opened:
        yield opened


@pytest.fixture(scope="session")
def minded() -> Iterator[Forks]:
    """Forks that think by themselves."""
    with fork_server("tests.crash.mind_child") as opened:
        yield opened


@pytest.fixture(scope="session")
async def own() -> AsyncIterator[Server]:
    """A server that the tests of this folder may crash."""
    async with own_server() as server:
        yield server
