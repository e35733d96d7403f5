"""Choices below a message: a press is the command that stands there, once, with the rights of whoever presses."""

from collections.abc import AsyncIterator

import pytest

from core.chat import choosing
from core.domain.choices import Choice, ChoiceRef
from core.domain.ids import RoomId
from core.domain.messages import Address, MessageKind
from core.ports import Accepted, RetryAfter, SendRefused
from tests.flows.line import Line, running_line, until
from tests.flows.offering import put_up, run_out
from tests.flows.test_mind_commands import told
from tests.flows.test_pass_commands import ask_for_approval, room_of, wish

ID = "speech:shelf"


@pytest.fixture
async def line(fresh_dsn: str) -> AsyncIterator[Line]:
    """The sample community; its mind would say something in the lobby, and waits for a yes."""
    async with running_line(fresh_dsn, sample=True) as running:
        await wish(running, "lobby", ID, "The shelf leans; shall I ask for a level?")
        await ask_for_approval(running, ID)
        yield running


async def card(line: Line, name: str = "a") -> ChoiceRef:
    """Have a card sent to the lobby with a yes and a no; return its first choice."""
    acts = [Choice(act.capitalize(), f"/void candidates {act} id:{ID}") for act in ("approve", "deny")]
    before = len(line.front_end.shown)
    ref = await put_up(line.database, RoomId(await room_of(line, "lobby")), name, *acts)
    await line.answers(before + 1)
    return ref


async def press(line: Line, person: str, data: str, on: str, room: str = "lobby", **more: object) -> Accepted:
    """Let somebody press a button below the message `on`."""
    by = frozenset({Address.COMMAND})
    return await line.say(person, data, room, kind=MessageKind.BUTTON, reply_to=on, addressed_by=by, **more)


async def heard(line: Line, person: str, data: str, on: str, **more: object) -> str:
    """Press, and return what the presser alone is told."""
    before = len(line.front_end.shown)
    await press(line, person, data, on, "lobby", **more)
    await line.answers(before + 1)
    (shown,) = list(line.front_end.shown.values())[before:]
    assert shown.part.private_to == person.lower()
    return shown.text


async def status(line: Line) -> object:
    return await line.value("select body->>'status' from voidbot.state_entries where entry_id = $1", ID)


async def test_a_press_is_the_command_once_with_the_presser_s_rights(line: Line) -> None:
    yes = await card(line)
    ((card_id, shown),) = line.front_end.shown.items()
    assert [each.label for each in shown.part.choices] == ["Approve", "Deny"]
    # Neither what was made up nor what stands elsewhere is a press.
    for data, on in (
        ("yes", card_id),
        (yes.text(), "s9"),
        (ChoiceRef(yes.outbox_id + 1, 1).text(), card_id),
    ):
        assert (await press(line, "Root", data, on)).outcome == "no_speech"
    assert (await press(line, "Root", yes.text(), card_id, room="workshop")).outcome == "no_speech"
    gone = ChoiceRef(yes.outbox_id, 3)
    assert "has run out" in await heard(line, "Root", gone.text(), card_id)
    assert "administrators" in await heard(line, "Wren", yes.text(), card_id)
    assert await status(line) == "awaiting_approval" and line.front_end.shown[card_id].part.choices
    approved = await heard(line, "Root", yes.text(), card_id, event_id="twice")
    assert approved.startswith("Approved: it is said when its turn comes.")
    assert (await press(line, "Root", yes.text(), card_id, event_id="twice")).duplicate
    assert line.front_end.shown[card_id].part.choices == ()
    no = ChoiceRef(yes.outbox_id, 2)
    assert await heard(line, "Mara", no.text(), card_id, admin=True) == "That is decided already."
    assert await status(line) == "approved"
    acts = await line.value("select array_agg(details->>'act') from voidbot.audit where act = 'void candidates'")
    assert acts == ["approve"]
    # What nobody has said yet is kept nowhere, and what stands for a press neither.
    assert await line.value("select count(*) from voidbot.messages where text like 'May I%'") == 0
    assert await line.value("select choices is null from voidbot.outbox where id = $1", yes.outbox_id)


async def test_what_has_run_out_does_nothing_and_the_next_card_is_decided_once(line: Line) -> None:
    yes = await card(line)
    (card_id,) = line.front_end.shown
    await run_out(line.database, yes)
    assert "has run out" in await heard(line, "Root", yes.text(), card_id)
    assert await status(line) == "awaiting_approval"
    # The platform may take its time, and may refuse: then the buttons stand there and still do nothing.
    line.front_end.edit_results.extend([RetryAfter(0.01), SendRefused("edits_spent")])
    async with line.database.transaction() as tx:
        assert await choosing.sweep(tx) == 1
    await line.quiet()
    assert not line.front_end.edit_results and line.front_end.shown[card_id].part.choices
    async with line.database.transaction() as tx:
        assert await choosing.sweep(tx) == 0
    assert "has run out" in await heard(line, "Root", yes.text(), card_id)
    # Of two who press the next one at once, one decides.
    yes = await card(line, "b")
    card_id, before = list(line.front_end.shown)[-1], len(line.front_end.shown)
    await press(line, "Root", yes.text(), card_id)
    await press(line, "Mara", ChoiceRef(yes.outbox_id, 2).text(), card_id, admin=True)
    words = (await line.answers(before + 2))[before:]
    first, second = sorted(each.split(":")[0] for each in words)
    assert first in ("Approved", "Denied") and second == "That is decided already."


async def test_a_staff_room_is_set_by_administrators_and_without_one_it_is_said(line: Line) -> None:
    listed = await told(line, "Root", "/void candidates")
    assert "no room is the staff's" in listed
    assert "before they are said: 1, see /void candidates; no room" in await told(line, "Root", "/void status")
    assert "administrators" in await told(line, "Wren", "/void room staff on")
    assert "set: on or off" in await told(line, "Root", "/void room staff maybe")
    before = await line.value("select settings_version from voidbot.communities")
    for room in ("workshop", "lobby"):
        shown = len(line.front_end.shown)
        await line.say("Root", "/void room staff on", room)
        await until(lambda shown=shown: len(line.front_end.shown) > shown)
    assert "before is it no longer" in (await line.answers(0))[-1]
    assert await line.value("select array_agg(chat_ref) from voidbot.rooms where staff") == ["lobby"]
    assert "the staff's room" in await told(line, "Root", "/void room")
    assert "no room is the staff's" not in await told(line, "Root", "/void candidates")
    await line.say("Root", "/void room staff off")
    await line.quiet()
    assert await line.value("select count(*) from voidbot.rooms where staff") == 0
    assert await line.value("select settings_version - $1 from voidbot.communities", before) == 3
    assert await line.value("select count(*) from voidbot.audit where act = 'void room'") == 3
