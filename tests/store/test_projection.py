"""The private self as one venue may hear it: the audience is the statement's, and nothing that is gone is told."""

import random
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from core.domain.audience import InRoom
from core.domain.ids import RoomId
from core.domain.mind.bodies import Sleep
from core.domain.mind.entries import Entry, entry_hash
from core.domain.mind.facts import Emitter
from core.domain.mind.projecting import CHAT_TOKENS, PASS_TOKENS, Purpose, SelfStateSection, ViewWanted
from core.domain.mind.values import EntryId
from core.prompt.tokens import estimate
from core.state.projection import project
from core.store import access, state
from core.store.engine import Database, Tx
from tests.audience.stored import Stored, store
from tests.audience.worlds import History, Oracle, live
from tests.domain.minds import (
    anchor,
    make_candidate,
    make_case,
    make_durable,
    make_entry,
    make_note,
    make_pressure_item,
    make_receipt,
    make_short_term,
    make_thread,
    make_value,
    read,
    said,
)
from tests.fakes import ManualClock
from tests.store.minds import Home, make_home, note

MOST = 20_000
"""A budget for everything."""


@pytest.fixture
async def home(database: Database, clock: ManualClock) -> Home:
    """A mind that nothing was ever proposed to."""
    return await make_home(database, clock)


async def put(home: Home, *entries: Entry) -> None:
    """Let entries stand."""
    async with home.database.transaction() as tx:
        mind = await state.lock_mind(tx, home.mind_id)
        await state.save(tx, mind, [(each, entry_hash(each), 1) for each in entries])


async def shown(
    home: Home, room: RoomId | None = None, budget: int = MOST, now: datetime | None = None, **more: Any
) -> SelfStateSection:
    """What is shown in a room, by its present readers."""
    venue = home.room if room is None else room
    async with home.database.transaction() as tx:
        readable = await access.list_readable(tx, home.community, InRoom(venue), None)
        wanted: dict[str, Any] = {"room": venue, "readable": readable} | more
        view = ViewWanted(**wanted)
        return await project(tx, home.mind_id, view, now or home.clock.now(), budget, estimate)


def ids(section: SelfStateSection) -> list[str]:
    """The entries that are shown, in order."""
    return [entry.id for entry in section.entries]


def texts(section: SelfStateSection) -> str:
    """All its words."""
    return "\n".join(f"{each.label} {each.text}" for each in (*section.self_view, *section.memories))


def here(home: Home, entry: Entry, *, closed: bool = False) -> Entry:
    """The entry, made from one of the home's rooms."""
    room, now = home.closed if closed else home.room, home.clock.now()
    return replace(entry, sources=frozenset({room}), people=frozenset({home.ana}), created_at=now, updated_at=now)


def proven(home: Home, *, closed: bool = False) -> dict[str, Any]:
    """The field of a thought that rests on a message of one of the home's rooms."""
    return {"anchor_refs": said((home.hidden if closed else home.messages)[0])}


async def test_nothing_is_shown_of_an_empty_mind_but_who_it_is(home: Home) -> None:
    section = await shown(home)
    assert section.entries == () and section.memories == ()
    assert [each.text for each in section.self_view] == ["Void", "awake", "need to speak: medium"]


async def test_each_type_is_shown_where_it_belongs_and_private_notes_nowhere(home: Home) -> None:
    proof = proven(home)
    owed = make_case(home.messages[0], room_id=home.room)
    await put(
        home, *(here(home, each) for each in (
            make_value(), make_note(), make_durable(**proof), make_short_term(**proof), make_thread(**proof),
            make_pressure_item(**proof), make_candidate(), make_receipt(room_id=home.room), owed,
            make_case(home.messages[1], room_id=home.closed), make_receipt(6, room_id=home.closed),
            make_case(home.messages[2], room_id=home.room, status="resolved"),
            make_pressure_item("pressure:over", status="resolved", **proof),
            make_thread("thread:over", retired="over", **proof),
        ))
    )  # fmt: skip
    talked = ["value:care", owed.id, "durable:routes", "seam:routes", "thread:routes", "pressure:routes"]
    assert ids(await shown(home)) == [*talked, "receipt:5"]
    run = await shown(home, purpose=Purpose.RUN, public=False)
    assert ids(run) == [*talked, "speech:stops", "receipt:5"] and "shall I list them" in texts(run)


async def test_private_canary_is_never_projected(home: Home) -> None:
    canary = "canaryword is under the mat"
    closed = {"closed": True, "by": Emitter.SLEEP}
    ref = {"anchor_refs": [{"ref": f"message:{home.hidden[0]}", "kind": "message"}], "summary": canary}
    await home.accept(note(home, "one", topics=["mats"], **ref), closed=True)
    merged = note(home, "two", topics=["mats"], **{**ref, "claim": f"{canary}, it was said again"})
    await home.accept(merged, closed=True)
    await put(home, here(home, make_thread("thread:mat", topic=canary[:40], **proven(home, closed=True)), closed=True))

    async def leaks(room: RoomId, **more: Any) -> bool:
        return any(["canary" in texts(await shown(home, room, about=canary, **each, **more)) for each in _WAYS])

    assert not await leaks(home.room) and await leaks(home.closed)
    notes = {"one": 2}
    memory = note(home, "big", **ref)["memory"]
    proposal = {
        "operation": "propose_memory_distillation", "proposalId": "p1", "sourceMemoryIds": ["one"],
        "candidate": memory, "lossNote": "Nothing that was said of the mat is left out here.",
    }  # fmt: skip
    await home.accept(proposal, expect=notes, **closed)
    applied = {key: value for key, value in proposal.items() if key != "candidate"}
    applied |= {"operation": "apply_memory_distillation", "memory": memory}
    await home.accept(applied, expect=notes, **closed)
    assert not await leaks(home.room) and await leaks(home.closed)
    async with home.database.transaction() as tx:  # Bo comes into the closed room, then Ana leaves the community
        await access.save_access(tx, home.closed, home.community, everyone=False, users=[home.ana, home.bo])
    assert not await leaks(home.room) and await leaks(home.closed)
    async with home.database.transaction() as tx:
        await access.save_access(tx, home.closed, home.community, everyone=True)
    assert await leaks(home.room)
    async with home.database.transaction() as tx:
        await access.save_access(tx, home.closed, home.community, everyone=False, users=[home.bo])
    assert not await leaks(home.room)


_WAYS: tuple[dict[str, Any], ...] = ({}, {"purpose": Purpose.RUN, "public": False})


async def test_a_room_of_unknown_readers_hears_only_what_was_made_from_no_room(home: Home) -> None:
    free = make_value("value:free", sources=(), people=())
    await put(home, free, here(home, make_value("value:room")))
    assert ids(await shown(home)) == ["value:room", "value:free"]
    async with home.database.transaction() as tx:
        await tx.execute("update voidbot.room_access set known = false where room_id = $1", home.room)
    known = frozenset({home.room})
    assert ids(await shown(home, readable=known)) == ["value:free"]
    assert ids(await shown(home, readable=known, private_to=home.ana)) == ["value:room", "value:free"]


async def test_what_needs_review_is_not_said_aloud(home: Home) -> None:
    await put(home, here(home, make_durable(needs_review=True, **proven(home))))
    assert ids(await shown(home)) == []
    section = await shown(home, purpose=Purpose.RUN, public=False)
    assert "needs review" in section.memories[0].label


async def test_who_is_not_to_be_remembered_is_not_shown(home: Home) -> None:
    about: dict[str, Any] = {"target": {"kind": "person", "id": str(home.bo)}}
    await put(
        home, here(home, make_durable("of-ana", **proven(home))),
        here(home, make_durable("about-bo", summary="Bo counts stops.", **about, **proven(home))),
    )  # fmt: skip
    assert set(ids(await shown(home))) == {"of-ana", "about-bo"}
    async with home.database.transaction() as tx:
        await tx.execute("update voidbot.people set learn_me = false where id = $1", home.bo)
    assert ids(await shown(home)) == ["of-ana"]
    async with home.database.transaction() as tx:
        await tx.execute("update voidbot.people set opted_out = true where id = $1", home.ana)
    assert ids(await shown(home)) == []


async def test_a_pressure_about_somebody_is_told_to_nobody_else(home: Home) -> None:
    about: dict[str, Any] = {"target": {"kind": "person", "id": str(home.bo)}}
    await put(home, here(home, make_pressure_item(**about, **proven(home))))
    assert ids(await shown(home, speaker=home.ana)) == ids(await shown(home)) == []
    assert ids(await shown(home, speaker=home.bo)) == ["pressure:routes"]
    assert ids(await shown(home, speaker=home.ana, public=False)) == ["pressure:routes"]


async def test_what_rests_on_a_deleted_message_is_left_out_before_it_is_voided(home: Home) -> None:
    await put(
        home, here(home, make_durable("rests", **proven(home))),
        here(home, make_value("value:through", support_memory_id="rests")),
        here(home, make_durable("stays", summary="Something else.", anchor_refs=said(home.messages[1]))),
        here(home, make_case(home.messages[0], room_id=home.room)),
        here(home, make_durable("odd", summary="Another thing.", anchor_refs=(anchor("evidence:trace-1"),))),
    )  # fmt: skip
    assert len(ids(await shown(home))) == 5
    async with home.database.transaction() as tx:
        await tx.execute("update voidbot.messages set deleted_at = voidbot.now() where id = $1", home.messages[0])
    assert set(ids(await shown(home))) == {"stays", "odd"}


async def test_what_is_to_the_point_comes_first(home: Home) -> None:
    def memory(id_: str, summary: str, days: float = 0, **more: Any) -> Entry:
        fields = {"claim": f"{id_} claim", "target": {"kind": "self", "id": "void"}} | proven(home) | more
        made = here(home, make_durable(id_, summary=summary, **fields))
        at = made.updated_at - timedelta(days=days)
        return replace(made, created_at=at, updated_at=at)

    await put(
        home, memory("words", "The lantern hangs at the pier.", 60), memory("new", "Unlike anything."),
        memory("old", "From long ago.", 90), memory("topic", "Of another kind.", 90, topics=["pier-maps"]),
        memory("target", "On somebody.", 90, target={"kind": "person", "id": str(home.ana)}),
        memory("bare", "Nothing shows it.", 90, anchor_refs=None, anchors_missing=True),
    )  # fmt: skip
    asked: dict[str, Any] = {"about": "which lantern of the pier maps?", "speaker": home.ana}
    assert ids(await shown(home, **asked)) == ["words", "new", "target", "topic", "old", "bare"]
    near = {EntryId("old"): 0.9, EntryId("words"): -0.5}
    assert ids(await shown(home, near=near, **asked)) == ["old", "new", "target", "topic", "words", "bare"]
    now = home.clock.now()
    assert repr(await shown(home, now=now, **asked)) == repr(await shown(home, now=now, **asked))


async def test_sleep_is_told_everywhere_and_dreams_nowhere(home: Home) -> None:
    asleep = read(
        Sleep, is_napping=True, nap_ends_at=home.clock.now() + timedelta(hours=2),
        active_dream_themes=("canary theme",),
    )  # fmt: skip
    await put(home, here(home, make_entry("sleep", asleep), closed=True))
    section = await shown(home)
    assert "napping; it ends in 2 hours" in texts(section) and "canary" not in texts(section)


async def test_a_mind_that_is_full_fits_the_budget(home: Home) -> None:
    made = [
        make_durable(f"d{n}", summary=" ".join(f"w{n}x{k}" for k in range(40)), claim=f"claim {n}", **proven(home))
        for n in range(60)
    ]
    await put(home, *(here(home, each) for each in made))
    for budget, purpose, weighed in ((CHAT_TOKENS, Purpose.CHAT, 48), (PASS_TOKENS, Purpose.RUN, 60)):
        section = await shown(home, budget=budget, purpose=purpose)
        assert section.memories and section.tokens <= budget
        (memories,) = (each for each in section.trace if each.group == "memory")
        assert memories.kept == len(section.memories) and memories.kept + memories.left_out == weighed


async def test_no_projection_holds_what_one_reader_may_not_read(database: Database, clock: ManualClock) -> None:
    rng = random.Random(17)
    shown_in_all = 0
    for n in range(12):
        history = live(rng)
        async with database.transaction() as tx:
            stored = await store(tx, history, n, clock.now())
            made = await _remember(tx, stored, history, rng, n)
            shown_in_all += await _check(tx, stored, history, made, clock)
    assert shown_in_all > 100


async def _remember(tx: Tx, stored: Stored, history: History, rng: random.Random, n: int) -> dict[str, frozenset[int]]:
    """Give each mind of a history some entries; return the rooms of each by id."""
    made: dict[str, frozenset[int]] = {}
    for mind_id in sorted({f"{n}:{mind}" for mind in history.heard.minds.values()}):
        entries = []
        for k in range(40):
            sources = frozenset(rng.sample(sorted(stored.rooms), min(len(stored.rooms), rng.choice((0, 1, 1, 2, 3)))))
            id_ = f"{mind_id.replace(':', '.')}.{k}"
            made[id_] = sources
            fields: dict[str, Any] = {"summary": f"{id_} lantern", "anchor_refs": (anchor("evidence:trace-1"),)}
            shape = rng.choice((make_durable, make_durable, make_short_term, make_thread, make_pressure_item))
            rooms = frozenset(stored.rooms[room] for room in sources)
            entries.append(shape(id_, sources=rooms, people=(), claim=f"claim of {id_}", **fields))
        mind = await state.lock_mind(tx, mind_id)
        await state.save(tx, mind, [(each, entry_hash(each), 1) for each in entries])
    return made


async def _check(tx: Tx, stored: Stored, history: History, made: dict[str, frozenset[int]], clock: ManualClock) -> int:
    oracle, seen = Oracle(history.truth), 0
    for number, room in stored.rooms.items():
        home_number = history.heard.rooms[number].home
        home = stored.homes[home_number]
        mind_id = await tx.fetchval("select mind_id from voidbot.communities where id = $1", home)
        readable = await access.list_readable(tx, home, InRoom(room), None)
        for way in _WAYS:
            view = ViewWanted(room=room, readable=readable, about="lantern", **way)
            section = await project(tx, mind_id, view, clock.now(), MOST, estimate)
            for entry in section.entries:
                seen += 1
                assert all(oracle.allows(InRoom(RoomId(number)), source) for source in made[entry.id]), (number, entry)
    return seen
