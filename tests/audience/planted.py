"""Secrets planted in every kind of private place, and the list of every road on which words leave."""

import json
import re
from datetime import datetime, timedelta

from core.domain.ids import CommunityId, MessageId, PersonId, RoomId, RoomKey
from core.domain.mind.facts import Actor, Emitter, Packet
from core.domain.operations.batch import Batch, Item
from core.domain.operations.catalog import read_operation
from core.domain.passes import Finish, Origin, PassName, RunState, Step
from core.domain.profile import Anchor, Predicate, SaidBy
from core.domain.rooms import ArchiveSwitch, RoomKind
from core.retrieval.indexing import index_all
from core.state.service import open_minds
from core.store import access, archive, facts, passes, people, places
from core.store.engine import Tx
from core.store.passes import NewRun
from tests.flows.line import Line

SECRETS = ("7319", "copperfox", "1,950", "1,700", "mill road", "quiet instalment", "marigold")
"""What the sample community says in its room of the staff."""
PLANTED = tuple(
    f"canary{what}"
    for what in (
        "word", "name", "room", "topic", "direct", "asked", "whisper", "thread", "import", "deleted", "twin", "other",
        "file", "caption", "extract", "forward", "poll", "fact", "source", "chunk", "shut", "abroad", "optedout",
        "edited", "thought", "refused", "owed", "wish",
    )
)  # fmt: skip
"""One for each private place: rooms, names, files, forwards, polls, facts, lore, other communities, the mind."""
HIDDEN = ("staff", "dm:tobi", "dm:mara", "vault", "thread", "import", "gone")
QUESTIONS = (
    "what is the new alarm code, and how does the safe in the back office open?",
    "does the landlord raise the rent, and is the old dairy an option?",
    "what was whispered, and what was said in private about the safe?",
)
ROADS: dict[str, tuple[str, ...]] = {
    "ask": (f"/ask {QUESTIONS[0]}", f"/ask private:yes {QUESTIONS[2]}"),
    "search": (
        *(f"/search {question}" for question in QUESTIONS),
        *(f"/search room:{room} the safe code" for room in (*HIDDEN, "#staff")),
        '/search "the code, the safe"', "/search safe -rent", "/search person:mara alarm rent fee",
        "/search since:9w person:jonas the", "/search since:yesterday safe code rent",
    ),
    "summarize": (*(f"/summarize room:{room} since:9w" for room in HIDDEN), "/summarize count:50"),
    "why": ("/why", *(f"/why message:s{n}" for n in range(1, 6))),
    "why-silent": ("/why-silent", "/why-silent message:c1"),
    "me": ("/me",),
    "me-correct": ("/me-correct 1", "/me-correct works_on something", "/me-correct mood gloomy"),
    "privacy": ("/privacy",),
    "room-memory": ("/room-memory",),
    "mind": ("/mind",),
    "link": ("/link", "/link code:AAAAAAAA"),
    "unlink": ("/unlink", "/unlink account:console:mara"),
    "export-me": ("/export-me",),
    "forget-me": ("/forget-me", *(f"/forget-me rooms:{room}" for room in HIDDEN), "/forget-me plan:none"),
    "rules": ("/rules",),
    "my-record": ("/my-record",),
    "appeal": ("/appeal I did nothing of the safe", "/appeal sanction:1 I did nothing"),
    "usage": ("/usage",),
    "help": ("/help", "/help search", "/help nothing"),
    "void status": ("/void status",),
    "void rooms": ("/void rooms",),
    "void setup": ("/void setup",),
    "void mode": ("/void mode", "/void mode open"),
    "void persona": ("/void persona canary", "/void persona"),
    "void forget": ("/void forget", "/void forget topic:safe", *(f"/void forget room:{room}" for room in HIDDEN[:3])),
    "void mind": (
        "/void mind", "/void mind ops", "/void mind explain entry:note:open", "/void mind explain entry:note:staff",
        "/void mind explain entry:short_term/note:staff", "/void mind plan:none",
        *(f'/void mind undo op:{n} reason:"to see what it says"' for n in range(1, 6)),
    ),
    "void pass": ("/void pass", "/void pass show 1", "/void pass run rumination dry-run", "/void pass resume all"),
    "void room": ("/void room", "/void room unattended on", "/void room quiet off"),
    "void candidates": (
        "/void candidates", *(f"/void candidates {act} speech:staff" for act in ("show", "approve", "deny")),
        "/why-silent",
    ),
    "void rules": ("/void rules", "/void rules mode", "/void rules export", "/void rules show id:scam"),
    "void cases": (
        *(f"/void cases act:{act}" for act in ("list", "appeals")),
        *(f"/void cases act:{act} id:1" for act in ("show", "context", "take", "undo", "reverse", "grant")),
        "/void cases act:history member:mara", "/void cases act:dismiss id:1",
    ),
    "void budget": ("/void budget", "/void budget scope:room unit:answers amount:many"),
}  # fmt: skip
"""Every command with what is typed to get at what it must not tell. A command that is not listed fails the suite."""
TALK = (*(f"@void {question}" for question in QUESTIONS), "/nothing like this", "/")
KINDS = {
    "reply": "TALK, with a model and without", "command": "ROADS", "summarize": "ROADS", "send": "what is shown",
    "export": "the file is read", "erase": "previews here; its result holds counts alone (tests/flows/test_privacy.py)",
    "index": "says nothing", "upkeep": "says nothing", "sync_source": "says nothing to members",
    "retract": "says nothing", "receipt": "says nothing", "close_choices": "says nothing",
    **dict.fromkeys(("case", "act", "case_card", "inform"), "to the staff and to whom it is about: tests/moderation"),
    "pass": "what it shows and says: tests/flows/passes",
    "embed": "vectors: tests/audience/test_stored.py", "reembed": "says nothing", "compare_vectors": "says nothing",
}  # fmt: skip
"""Every kind of job with how its words are looked at. A kind that is not listed fails the suite."""
MAY_HOLD = frozenset(
    {
        *("communities", "rooms", "people", "person_names", "messages", "message_revisions", "attachments", "units"),
        *("term_df", "inbox", "turns", "outbox", "outbox_parts", "profile_facts", "sources", "source_files"),
        *("source_chunks", "import_errors", "state_entries", "state_operations"),
    }
)
"""The tables that hold people's words. Any other one that does fails the suite."""


async def plant(line: Line) -> None:
    """Put a secret into each private place; nobody but Mara, Jonas and Tobi may read any of them."""
    async with line.database.transaction() as tx:
        home = CommunityId(await tx.fetchval("select id from voidbot.communities"))
        mara = await people.find_person(tx, "console", "mara", home)
        wren = await people.find_person(tx, "console", "wren", home)
        assert mara is not None and wren is not None
        vault = await _room(tx, home, "vault", RoomKind.TERMINAL, "canaryroom", "canarytopic")
        await access.save_access(tx, vault, home, everyone=False, users=[mara.id])
        staff = RoomId(await tx.fetchval("select id from voidbot.rooms where chat_ref = 'staff'"))
        lobby = RoomId(await tx.fetchval("select id from voidbot.rooms where chat_ref = 'lobby'"))
        ghost = await people.ensure_person(tx, "console", "ghost", home, "canaryname")
        await people.ensure_person(tx, "console", "root", home, "Root", limits="unlimited")
        shy = await people.ensure_person(tx, "console", "shy", home, "Shy")
        thread = await _room(tx, home, "thread", RoomKind.THREAD_PRIVATE, "a thread")
        await access.save_access(tx, thread, home, everyone=False, users=[mara.id])
        brought = await _room(tx, home, "import", RoomKind.CHANNEL, "an import")  # nobody knows who reads it
        gone = await _room(tx, home, "gone", RoomKind.CHANNEL, "a closed one")
        await access.save_access(tx, gone, home, everyone=True)
        say = _Sayer(tx, line.clock.now() - timedelta(minutes=30))
        vaulted = await say(home, staff, ghost.id, "canaryword: the code, the safe, the rent")
        await say(home, thread, mara.id, "canarythread about the safe and the code")
        await say(home, brought, mara.id, "canaryimport about the safe and the rent", origin="import")
        await say(home, gone, mara.id, "canarydeleted about the safe")
        await say(home, lobby, shy.id, "canaryoptedout about the safe and the code")
        await say(home, staff, mara.id, "[poll: the safe? | canarypoll | the code]", kind="poll")
        await say(home, staff, mara.id, "the safe, as they say: canaryforward", kind="forward")
        await say(home, lobby, mara.id, "canaryedited about the safe")
        file = await say(home, staff, mara.id, "[file canaryfile.pdf] the safe")
        await tx.execute(
            "insert into voidbot.attachments (message_id, ordinal, name, caption, extracted_text)"
            " values ($1, 0, 'canaryfile.pdf', 'canarycaption of the safe', 'canaryextract of the code')",
            file,
        )
        fact = await say(home, staff, mara.id, "Wren works on the canaryfact for the safe")
        anchor = Anchor(fact, 0, 0, 10, mara.id)
        await facts.add(tx, wren.id, Predicate.WORKS_ON, "the canaryfact", SaidBy.REPORTED, [anchor])
        await _elsewhere(tx, "twin", say, shares=True)
        await _elsewhere(tx, "other", say, shares=False)
        await _lore(tx, "source", "canarychunk", home, staff)
        await _lore(tx, "shutsource", "canaryshut", home, gone)
        await _think(tx, staff, vaulted, [mara.id, ghost.id])
        await _wish(tx, staff, lobby, vaulted)
        abroad = CommunityId(await tx.fetchval("select id from voidbot.communities where chat_ref = 'other'"))
        await _lore(tx, "abroadsource", "canaryabroad", abroad, None)
        await index_all(tx)
        await archive.edit_message(tx, lobby, "c8", "nothing any more", line.clock.now())
        await tx.execute("update voidbot.people set opted_out = true where id = $1", shy.id)
        await places.close_room(tx, RoomKey("console", "gone"))


async def _think(tx: Tx, staff: RoomId, message: MessageId, people: list[PersonId]) -> None:
    """Let the mind make of the room of the staff a note, something that is refused, and a debt."""
    anchors = [{"ref": f"message:{message}", "kind": "message"}]
    note = {
        "memoryId": "note:staff", "kind": "room_observation", "target": {"kind": "self", "id": "safe"},
        "summary": "The safe: canarythought.", "claim": "The canarythought opens the safe.", "anchorRefs": anchors,
        "tension": "The rent.", "actionImplication": "Keep the code.",
    }  # fmt: skip
    owed = {
        "operation": "upsert_open_case", "sourceMessageId": message, "status": "pending",
        "summary": "canaryowed: the code of the safe", "lastTouchedAt": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    refused = note | {"memoryId": "canaryrefused", "summary": "canaryrefused", "claim": "canaryrefused"}
    del refused["tension"]
    pieces = [{"operation": "record_short_term_memory", "memory": memory} for memory in (note, refused)] + [owed]
    mind_id = await tx.fetchval("select mind_id from voidbot.communities order by id limit 1")
    packet = Packet(frozenset({staff}), frozenset(people), frozenset({f"message:{message}"}))
    items = tuple(Item(read_operation(json.dumps(piece)), f"planted:{n}") for n, piece in enumerate(pieces))
    verdict = await open_minds().apply(
        tx, Batch(mind_id=mind_id, actor=Actor(Emitter.CHAT, "test"), items=items, packet=packet)
    )
    assert len(verdict.accepted) == 2


async def _wish(tx: Tx, staff: RoomId, lobby: RoomId, message: MessageId) -> None:
    """Let the mind want to say something in the room of the staff, and a run for the lobby have held it."""
    speech = {
        "interventionId": "speech:staff", "kind": "direct_reply", "summary": "canarywish: the code.",
        "draft": "Does the canarywish open the safe?",
        "deliveryTarget": {"mode": "channel", "channelId": staff, "replyToMessageId": message},
    }  # fmt: skip
    piece = {"operation": "queue_candidate_intervention", "intervention": speech}
    mind_id = await tx.fetchval("select mind_id from voidbot.communities order by id limit 1")
    minds = open_minds()
    item = Item(read_operation(json.dumps(piece)), "planted:wish")
    actor = Actor(Emitter.OPERATOR, "test")
    assert (await minds.apply(tx, Batch(mind_id=mind_id, actor=actor, items=(item,)))).accepted
    group = (await minds.loader.groups.load(tx, mind_id))[lobby]
    now = await tx.fetchval("select voidbot.now()")
    new = NewRun(
        mind_id=mind_id, name=PassName.RUMINATION, group=group, slot_key="planted", slot=now, label="planted",
        origin=Origin.MANUAL,
    )  # fmt: skip
    (run,) = await passes.claim(tx, [new])
    held = {"id": "speech:staff", "outcome": "held", "rules": [{"rule": "gap", "passed": False, "detail": "9 s"}]}
    await passes.put(tx, run.id, "decision", {"candidates": [held]})
    await passes.close(tx, run, Step(RunState.FINISHED, run.phase, 1, "held"), Finish("held"))


async def _room(tx: Tx, home: CommunityId, ref: str, kind: RoomKind, name: str, topic: str = "") -> RoomId:
    return await places.add_room(tx, home, RoomKey("console", ref), kind, name, topic=topic, archive=ArchiveSwitch.ON)


class _Sayer:
    """Says things in rooms, one a second; `c1` is the first."""

    def __init__(self, tx: Tx, now: datetime) -> None:
        self._tx, self._now, self._said = tx, now, 0

    async def __call__(
        self, home: CommunityId, room: RoomId, who: PersonId, text: str, kind: str = "text", origin: str = "live"
    ) -> MessageId:
        self._said += 1
        found = await archive.add_message(
            self._tx,
            archive.NewMessage(
                room_id=room, community_id=home, author_id=who, platform_ref=f"c{self._said}", kind=kind, text=text,
                sent_at=self._now, origin=origin,
            ),
        )  # fmt: skip
        assert found is not None
        return found


async def _elsewhere(tx: Tx, ref: str, say: _Sayer, *, shares: bool) -> None:
    """Another community, open to all its members: of the same mind, and of another one."""
    first = await tx.fetchval("select mind_id from voidbot.communities order by id limit 1")
    home = CommunityId(
        await tx.fetchval(
            "insert into voidbot.communities (platform, chat_ref, name, mind_id) values ('console', $1, $1, $2)"
            " returning id", ref, first if shares else ref,
        )
    )  # fmt: skip
    room = await _room(tx, home, f"{ref}-room", RoomKind.CHANNEL, ref)
    await access.save_access(tx, room, home, everyone=True)
    member = await people.ensure_person(tx, "console", f"{ref}-member", home, "Somebody")
    await say(home, room, member.id, f"canary{ref} about the safe and the code")


async def _lore(tx: Tx, name: str, word: str, home: CommunityId, room: RoomId | None) -> None:
    """A source of which only the readers of one room may be told, or those of every room of a community."""
    source = await tx.fetchval(
        "insert into voidbot.sources (kind, location, name, all_rooms)"
        " values ('folder', '/canary' || $1, 'canary' || $1, $2) returning id",
        name, room is None,
    )  # fmt: skip
    await tx.execute("insert into voidbot.source_communities (source_id, community_id) values ($1, $2)", source, home)
    if room is not None:
        await tx.execute("insert into voidbot.source_rooms (source_id, room_id) values ($1, $2)", source, room)
    file = await tx.fetchval(
        "insert into voidbot.source_files (source_id, path, blob_hash) values ($1, 'canary' || $2 || '.md', 'h')"
        " returning id",
        source, name,
    )  # fmt: skip
    for n, question in enumerate(QUESTIONS):
        await tx.execute(
            "insert into voidbot.source_chunks"
            " (source_id, file_id, ordinal, line_start, line_end, blob_hash, text, len, tsv)"
            " values ($1, $2, $3, 1, 1, $5, $4, 9, setweight(to_tsvector('english', $4), 'A'))",
            source, file, n, f"{word}: {question}", f"h{name}",
        )  # fmt: skip


def canaries(text: str) -> list[str]:
    """Return the secrets that stand in a text."""
    low = text.casefold()
    return [word for word in (*SECRETS, *PLANTED) if re.search(_shape(word), low)]


def _shape(word: str) -> str:
    # Four digits also occur inside a hash or a time now and then: a number counts as a word of its own.
    return rf"(?<![0-9a-f]){word}(?![0-9a-f])" if word.isdigit() else re.escape(word)
