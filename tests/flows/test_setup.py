"""`/void setup` through the whole line: rooms with their switches, what is in the way, what to type next."""

import pytest

from bot.commands.setup import SHOWN_ROOMS
from core.domain.ids import RoomKey
from core.domain.platforms import CommunityReport, MemberReport, RoomReport, Surroundings, Whoever
from core.domain.rooms import RoomKind
from core.ports import SendRefused
from core.store.platforms import StoredPlatformMemory
from tests.fakes import RecordingFrontEnd
from tests.flows.line import Line, running_line, until

CLUB = "club"
FAR = "pigeon"
"""A platform that is not the terminal, whose doors the receiver keeps itself."""
EVERYONE = Whoever(everyone=True)


def about(name: str, kind: RoomKind = RoomKind.CHANNEL) -> Surroundings:
    return Surroundings(community_ref=CLUB, kind=kind, community_name="Club", name=name)


def room(line: Line, name: str, view: Whoever | None = EVERYONE) -> RoomReport:
    return RoomReport(key=RoomKey(line.front_end.name, name), surroundings=about(name), view=view, history=view)


async def learn(line: Line, *rooms: RoomReport) -> None:
    """Let the platform tell of rooms, with the administrator among the members."""
    report = CommunityReport(
        platform=line.front_end.name,
        ref=CLUB,
        name="Club",
        rooms=rooms,
        members=(MemberReport(ref="bea", name="Bea"), MemberReport(ref="ana", name="Ana")),
        members_known=True,
    )
    await StoredPlatformMemory(line.database).learn(report)
    async with line.database.transaction() as tx:
        await tx.execute("update voidbot.people set limits = 'unlimited'")


async def tell(line: Line, person: str, text: str, place: str = "lobby", **changes: object) -> str:
    """Say one thing and return what came of it, whether in one message or in several."""
    before = len(line.front_end.shown)
    await line.say(person, text, place, surroundings=about(place), **changes)
    await line.answers(before + 1)
    return "".join(shown.text for shown in list(line.front_end.shown.values())[before:])


async def setup(line: Line, place: str = "lobby") -> str:
    text = await tell(line, "Bea", "/void setup", place, admin=True)
    assert list(line.front_end.shown.values())[-1].part.private_to == "bea"
    return text


@pytest.mark.parametrize("name", ["console", "pigeon"])
async def test_rooms_are_listed_with_their_switches_on_every_front_end(fresh_dsn: str, name: str) -> None:
    async with running_line(fresh_dsn, front_end=RecordingFrontEnd(name)) as line:
        await learn(line, room(line, "lobby"), room(line, "garden"), room(line, "attic", Whoever(accounts=frozenset())))
        await tell(line, "Bea", "/void mode lurk archive:on", "garden", admin=True)
        text = await setup(line)
        assert text.splitlines()[0] == "#lobby (here) · channel · mention · archive off · readers known"
        assert "#garden · channel · lurk · archive on · readers known" in text
        assert "attic" not in text, "who may not read a room is not told of it"


async def test_a_room_whose_readers_are_not_known_says_so(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, front_end=RecordingFrontEnd(FAR)) as line:
        await learn(line, room(line, "lobby", None))
        text = await setup(line)
        assert "#lobby (here) · channel · mention · archive off · readers not known" in text
        assert "1 rooms I do not know who reads" in text and "voidbot doctor" in text


async def test_what_was_refused_is_told_until_an_answer_arrives(fresh_dsn: str) -> None:
    front_end = RecordingFrontEnd(FAR)
    async with running_line(fresh_dsn, front_end=front_end) as line:
        await learn(line, room(line, "lobby"), room(line, "garden"))
        front_end.results.append(SendRefused("no_permission"))
        await line.say("Ana", "@void hello?", "garden", surroundings=about("garden"))
        await until(lambda: not front_end.results)
        await line.quiet()
        text = await setup(line)
        lines = text.splitlines()
        (told,) = [each for each in lines if each.startswith("  ! ")]
        assert "I may not write here" in told and "UTC" in told
        assert lines[lines.index(told) - 1].startswith("#garden")
        assert "let my role or account write there" in text
        await tell(line, "Ana", "@void and now?", "garden")
        assert "refused" not in await setup(line)


async def test_a_closed_private_chat_is_no_fault_of_the_room(fresh_dsn: str) -> None:
    front_end = RecordingFrontEnd(FAR)
    async with running_line(fresh_dsn, front_end=front_end) as line:
        await learn(line, room(line, "lobby"))
        front_end.results.append(SendRefused("dm_closed"))
        await line.say("Ana", "/help", "lobby", surroundings=about("lobby"))
        await until(lambda: not front_end.results)
        await line.quiet()
        assert "refused" not in await setup(line)


async def test_a_paused_room_says_so(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, front_end=RecordingFrontEnd(FAR)) as line:
        await learn(line, room(line, "lobby"), room(line, "garden"))
        async with line.database.transaction() as tx:
            await tx.execute("update voidbot.rooms set paused = true where name = 'garden'")
        assert "  ! paused" in await setup(line)


async def test_the_commands_it_proposes_are_those_that_change_something(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, front_end=RecordingFrontEnd(FAR)) as line:
        await learn(line, room(line, "lobby"))
        fresh = await setup(line)
        assert "- /void mode lurk archive:on" in fresh and "/void mode mention" not in fresh
        await tell(line, "Bea", "/void mode silent", admin=True)
        silent = await setup(line)
        assert "- /void mode mention" in silent and "- /void mode lurk archive:on" in silent
        await tell(line, "Bea", "/void mode mention archive:on", admin=True)
        assert "- /void mode lurk —" in await setup(line)
        await tell(line, "Bea", "/void mode lurk", admin=True)
        done = await setup(line)
        assert "/void mode" not in done and "/void budget" in done


async def test_a_large_community_is_cut_after_the_room_it_was_asked_in(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, front_end=RecordingFrontEnd(FAR)) as line:
        await learn(line, *(room(line, f"room-{number:03}") for number in range(SHOWN_ROOMS + 5)))
        text = await setup(line, f"room-{SHOWN_ROOMS + 4:03}")
        lines = text.splitlines()
        assert "(here)" in lines[0] and sum(each.startswith("#") for each in lines) == SHOWN_ROOMS
        assert "and 5 more; /void rooms" in text


async def test_it_is_for_administrators(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, front_end=RecordingFrontEnd(FAR)) as line:
        await learn(line, room(line, "lobby"))
        assert "is for administrators" in await tell(line, "Ana", "/void setup")
