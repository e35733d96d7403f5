"""The sign that an answer is being made, kept alive while a model works."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import structlog

from core.domain.ids import RoomKey
from core.ports import FrontEnd

log = structlog.get_logger()

RENEW_S = 4.0
"""The shortest time that a platform shows it for; front ends skip renewals that they do not need."""


@asynccontextmanager
async def typing_in(front_end: FrontEnd | None, room: RoomKey | None) -> AsyncIterator[None]:
    """Show in the room that an answer is being made, until the block ends; None of either: show nothing."""
    if front_end is None or room is None:
        yield
        return
    showing = asyncio.create_task(_keep_showing(front_end, room))  # noqa: TID251  # a group would wrap the block's errors
    try:
        yield
    finally:
        showing.cancel()
        with suppress(asyncio.CancelledError):
            await showing


async def _keep_showing(front_end: FrontEnd, room: RoomKey) -> None:
    while True:
        try:
            await front_end.show_typing(room)
        except Exception as exc:  # noqa: BLE001  # a sign of typing is never worth an answer
            log.warning("typing.failed", error=type(exc).__name__)
        await asyncio.sleep(RENEW_S)
