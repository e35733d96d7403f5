"""Each mutation of the Discord double changes what the real client library sees."""

from collections.abc import Awaitable, Callable
from typing import Any

import discord
import pytest

from tests.doubles.discord_faults import FaultKind, Mutation
from tests.doubles.discord_library import Listener, Place, open_place, running


async def sends_with_one_nonce(place: Place) -> int:
    """Return how many messages two sends under one nonce make."""
    async with running(place.server, Listener()) as client:
        for _ in range(2):
            await (await place.seen(client)).send("once", nonce="same")
    return len(place.texts())


async def texts_over_a_resume(place: Place) -> list[str]:
    """Return what a client hears that loses its line between two messages."""
    async with running(place.server, Listener()) as client:
        await place.server.say(place.ada, place.room, "before")
        await place.server.until(lambda: client.texts() == ["before"])
        place.server.pause_gateway()
        await place.server.drop()
        await place.server.say(place.ada, place.room, "missed")
        place.server.resume_gateway()
        await place.server.until(lambda: bool(client.events("resumed")))
    return client.texts()


async def status_after_a_429(place: Place) -> int:
    """Return how a send ends that was limited without notice."""
    async with running(place.server, Listener()) as client:
        place.server.fault(FaultKind.UNANNOUNCED_429, match="POST *")
        try:
            await (await place.seen(client)).send("patience")
        except discord.HTTPException as error:
            return error.status
    return 200


async def way_of_the_start(place: Place) -> str:
    """Return what ends a client's start, or that nothing did."""
    async with running(place.server, Listener()) as client:
        return type(client.ended_by).__name__


async def code_of_a_long_text(place: Place) -> int:
    """Return the code that refuses 2,001 characters, 0 if nothing does."""
    async with running(place.server, Listener()) as client:
        try:
            await (await place.seen(client)).send("x" * 2_001)
        except discord.HTTPException as error:
            return error.code
    return 0


CASES: list[tuple[Mutation, Callable[[Place], Awaitable[Any]], Any, Any]] = [
    (Mutation.NO_NONCE_FOLD, sends_with_one_nonce, 1, 2),
    (Mutation.RESUME_REPLAYS_NOTHING, texts_over_a_resume, ["before", "missed"], ["before"]),
    (Mutation.RESUME_ONE_TOO_MANY, texts_over_a_resume, ["before", "missed"], ["before", "before", "missed"]),
    (Mutation.NO_VIA, status_after_a_429, 200, 429),
    (Mutation.JSON_CHARSET, way_of_the_start, "NoneType", "TypeError"),
    (Mutation.NO_CONTENT_LIMIT, code_of_a_long_text, 50035, 0),
]


@pytest.mark.parametrize(("mutation", "look", "right", "wrong"), CASES)
async def test_a_mutation_is_seen_through_the_library(
    mutation: Mutation, look: Callable[[Place], Awaitable[Any]], right: Any, wrong: Any
) -> None:
    async with open_place() as place:
        assert await look(place) == right
    async with open_place() as place:
        place.server.mutations.add(mutation)
        assert await look(place) == wrong


def test_every_mutation_has_its_case() -> None:
    assert [case[0] for case in CASES] == list(Mutation)
