"""One fork server of workers for a session; after each test nothing that it started is left."""

from collections.abc import AsyncIterator

import pytest

from tests.queue.processes import Children, children


@pytest.fixture(scope="session")
async def fork_server() -> AsyncIterator[Children]:
    async with children() as opened:
        yield opened


@pytest.fixture
async def forks(fork_server: Children) -> AsyncIterator[Children]:
    yield fork_server
    await fork_server.end_all()
