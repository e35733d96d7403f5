"""Sources that the asker can open: links in answers, quotes, searches and receipts, and none where none is due."""

import re
from collections.abc import AsyncIterator

import pytest

from core.domain.ids import CommunityId, RoomId
from core.domain.messages import MessageKind
from core.domain.platforms import Surroundings
from core.domain.rooms import RoomKind
from core.store import access
from tests.fakes import RecordingFrontEnd, ScriptedModel, Shown
from tests.flows.line import Line, running_line
from tests.flows.test_commands import free
from tests.flows.test_summaries import handle

ADDRESS = "https://discord.com/channels/11/22/"


class Guild:
    """A server with one room in which people talk, its access known or not."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.number = 1000

    async def say(self, person: str, text: str, **changes: object) -> str:
        self.number += 1
        about = Surroundings(community_ref="11", kind=RoomKind.CHANNEL, community_name="Guild", name="plans")
        ref = str(self.number)
        fields = {"message_id": ref, "event_id": ref, "surroundings": about}
        await self.line.app.receiver.accept(self.line.message(person, text, "22", **{**fields, **changes}))
        return ref

    async def ask(self, person: str, text: str, **changes: object) -> Shown:
        """Say one thing and return the one message that came of it."""
        before = len(self.line.front_end.shown)
        await self.say(person, text, **changes)
        await self.line.answers(before + 1)
        return list(self.line.front_end.shown.values())[-1]

    async def know(self) -> None:
        """Let it be known that everybody of the server reads the room."""
        home = CommunityId(int(str(await self.line.value("select id from voidbot.communities"))))
        room = RoomId(int(str(await self.line.value("select id from voidbot.rooms where chat_ref = '22'"))))
        async with self.line.database.transaction() as tx:
            await access.save_access(tx, room, home, everyone=True)


async def opened(line: Line, *, known: bool = True) -> Guild:
    guild = Guild(line)
    await free(line, "discord", "root", "ana", "ben")
    await guild.ask("Root", "/void mode lurk archive:on")
    if known:
        await guild.know()
    return guild


@pytest.fixture
async def line(fresh_dsn: str) -> AsyncIterator[Line]:
    model = ScriptedModel(lambda request: f"On the bench [{handle(request, 'The brass lamp')}].")
    async with running_line(fresh_dsn, front_end=RecordingFrontEnd("discord", limit=8000), model=model) as running:
        yield running


async def test_what_an_answer_cites_can_be_opened_and_so_can_its_receipt(line: Line) -> None:
    guild = await opened(line)
    ref = await guild.say("Ana", "The brass lamp stands on the bench.")
    for question in ("@void where is the brass lamp?", "/summarize", "/ask private:yes where is the brass lamp?"):
        text = (await guild.ask("Ben", question)).text
        assert "Ana, #plans, " in text and text.endswith(f"{ADDRESS}{ref}"), question
        assert f"{ADDRESS}{ref}" in (await guild.ask("Ben", "/why")).text
    found = (await guild.ask("Ben", "/search brass lamp")).text
    assert "— Ana, #plans, " in found and f"{ADDRESS}{ref}" in found
    await guild.say("Ana", "", kind=MessageKind.DELETE, message_id=ref)
    why = (await guild.ask("Ben", "/why")).text
    assert f"{ADDRESS}{ref}" not in why and "Sources: " in why


async def test_a_room_whose_readers_are_unknown_is_quoted_in_itself_without_a_link(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, front_end=RecordingFrontEnd("discord")) as line:
        guild = await opened(line, known=False)
        await guild.say("Ana", "The brass lamp stands on the bench.")
        said = (await guild.ask("Ben", "@void where is the brass lamp?")).text
        assert "> The brass lamp" in said and "— Ana, said here on " in said and "discord.com" not in said
        assert "brass" not in (await guild.ask("Ben", "/search brass lamp")).text.partition("\n")[2]
        await guild.know()
        assert ADDRESS in (await guild.ask("Ben", "@void where is the brass lamp?")).text


async def test_a_search_understands_phrases_forbidden_words_and_times(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, front_end=RecordingFrontEnd("discord")) as line:
        guild = await opened(line)
        for text, ago in (("The brass lamp is old.", 800), ("A lamp of brass, by the desk.", 900), ("The lamp", 0)):
            ref = await guild.say("Ana", text)
            async with line.database.transaction() as tx:
                await tx.execute(
                    "update voidbot.messages set sent_at = sent_at - $2 * interval '1 day' where platform_ref = $1",
                    ref,
                    ago,
                )
        await line.quiet()
        async with line.database.transaction() as tx:
            await tx.execute("update voidbot.units u set sent_at = m.sent_at from voidbot.messages m"
                             " where m.id = u.message_id")  # fmt: skip
        for query, found, not_found in (
            ("brass lamp", "old. desk. > The lamp", ""),
            ('"brass lamp"', "old.", "desk. > The lamp"),
            ("brass lamp -old", "desk. > The lamp", "old."),
            ('"the lamp"', "> The lamp", "old. desk."),
            ("lamp since yesterday", "> The lamp", "old. desk."),
            ("lamp from last year", "", "old. desk. > The lamp"),
        ):
            text = (await guild.ask("Ben", f"/search {query}")).text
            assert all(word in f"{text}\n" for word in re.findall(r"\w+\.|> The lamp", found)), (query, text)
            assert not any(f"{word}\n" in text for word in re.findall(r"\w+\.|> The lamp", not_found)), (query, text)
            assert ("looked only" in text) == ("yesterday" in query or "year" in query)
