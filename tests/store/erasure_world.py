"""A small community in which one person has left something in every table that holds data of people."""

import json
from dataclasses import dataclass
from pathlib import Path

from core.domain.erasure import EraseScope, Reach
from core.domain.ids import CommunityId, PersonId, RoomId, RoomKey
from core.domain.jobs import Snooze
from core.domain.mind.codes import Accepted, Rejected
from core.domain.mind.facts import Actor, Emitter, Packet
from core.domain.operations.batch import Batch, Item
from core.domain.operations.catalog import read_operation
from core.domain.rooms import ArchiveSwitch, RoomKind
from core.privacy.erasure import ErasureService
from core.privacy.hand import Hand
from core.privacy.key import ErasureKey
from core.state.service import open_minds
from core.store import access, archive, erasures, people, places
from core.store.engine import Database, Tx
from tests.fakes import ManualClock

KEY = ErasureKey(bytes(range(32)))
ACCOUNT = "ana-4711"
SECRET = "the old safe in the back office opens with copperfoxcombination today"
EDITED = "I once wrote quillwortlantern here, a sentence long enough to be searched for"
ASKED = "@void does the old safe still open with copperfoxcombination, yes or no?"
PLANTED = ("copperfoxcombination", "quillwort", "anapseudonym", ACCOUNT)
OTHERS = "Ana told me: the old safe in the back office opens with copperfoxcombination today"


@dataclass
class World:
    """Ids of what stands there. `said`: Ana's message, `quoted`: Ben's, which quotes it."""

    database: Database
    community: CommunityId
    lobby: RoomId
    direct: RoomId
    ana: PersonId
    ben: PersonId
    said: int
    quoted: int
    answer: int

    async def value(self, sql: str, *args: object) -> object:
        async with self.database.transaction(durable=False) as tx:
            return await tx.fetchval(sql, *args)

    async def begin(self, scope: EraseScope | None = None, person: PersonId | None = None) -> int:
        """Write an erasure of Ana down as a command would."""
        scope = scope or EraseScope(reach=Reach.PERSON)
        who = None if scope.reach is Reach.MATTER else person or self.ana
        async with self.database.transaction() as tx:
            number = await erasures.write_down(
                tx,
                scope,
                key_id=KEY.id,
                key_hash="" if who is None else KEY.person("console", ACCOUNT),
                person_id=who,
                community_id=self.community,
                room_id=None,
                front_end="console",
                trace="asked",
            )
            if who is not None and scope.whole:
                await erasures.block(tx, who)
        return number

    def service(self, home: Path, **changes: object) -> ErasureService:
        values = {
            "database": self.database,
            "clock": ManualClock(),
            "key": KEY,
            "home": home,
            "tell": None,
            "minds": open_minds(),
        }
        return ErasureService(**{**values, **changes})  # type: ignore[arg-type]  # a test's own changes

    async def erase(self, home: Path, scope: EraseScope | None = None) -> str:
        """Do a whole erasure; return its state."""
        number = await self.begin(scope)
        await finish(self.service(home), self.database, number)
        return str(await self.value("select state from voidbot.erasures where ledger_id = $1", number))

    async def words_left(self) -> dict[str, list[str]]:
        """Return the tables whose rows still hold a planted word, with the rows."""
        found: dict[str, list[str]] = {}
        async with self.database.transaction(durable=False) as tx:
            for row in await tx.fetch(
                "select table_schema as s, table_name as t from information_schema.tables"
                " where table_schema in ('voidbot', 'queue') and table_type = 'BASE TABLE'"
            ):
                name = f"{row['s']}.{row['t']}"
                for each in await tx.fetch(f"select t::text as row from {name} t"):
                    if any(word in each["row"] for word in PLANTED):
                        found.setdefault(name, []).append(each["row"])
        return found


async def finish(service: ErasureService, database: Database, number: int) -> None:
    """Do what is left of an erasure, however often it asks to wait."""
    for _ in range(200):
        outcome = await service.carry_on(Hand(database), number)
        if not isinstance(outcome, Snooze):
            return
    raise AssertionError("the erasure waits for ever")


async def add_message(tx: Tx, world_room: RoomId, community: CommunityId, author: PersonId, ref: str, text: str) -> int:
    found = await archive.add_message(
        tx,
        archive.NewMessage(
            room_id=world_room,
            community_id=community,
            author_id=author,
            platform_ref=ref,
            kind="text",
            text=text,
            sent_at=await tx.fetchval("select voidbot.now() + $1 * interval '1 second'", int(ref.strip("m"))),
        ),
    )
    assert found is not None
    await tx.execute("update voidbot.messages set index_state = 'done' where id = $1", found)
    return int(found)


UNIT = """
insert into voidbot.units
  (community_id, room_id, message_id, author_id, sent_at, sources, len, unit_hash, own_hash, tsv)
select community_id, room_id, id, author_id, sent_at, array[room_id], 1, 'h', 'o', to_tsvector('simple', $2)
from voidbot.messages where id = $1"""
_ROOM = "(select room_id from voidbot.messages where id = $3)"
MODERATED = (
    "insert into voidbot.review_window (room_id, platform_ref, revision, archived_seq, author_id, sent_at, text,"
    f" expires_at) values ({_ROOM}, 'w1', 0, 990, $1, voidbot.now(), 'copperfoxcombination', 'infinity')",
    "insert into voidbot.mod_rules (community_id, rule_id, version, body, set_by) values ($2, 'scam', 2, '{}', $1)",
    "insert into voidbot.mod_signals (community_id, room_id, person_id, platform_ref, revision, rule_id, rule_version,"
    f" detector, value, threshold, what) values ($2, {_ROOM}, $1, 'm1', 0, 'scam', 2, 'terms', 1, 1, 'quillwort')",
    "insert into voidbot.cases (community_id, rule_id, rule_version, level, lane, subject_id, severity,"
    " decision_reason) values ($2, 'scam', 2, 'suggest', 'fast', $1, 4, 'anapseudonym again')",
    "insert into voidbot.case_evidence (case_id, room_id, platform_ref, revision, author_id, sent_at, text,"
    f" text_sha256) select id, {_ROOM}, 'm1', 0, $1, voidbot.now(), 'copperfoxcombination', 'x' from voidbot.cases",
    "insert into voidbot.case_events (case_id, act, details)"
    " select id, 'opened', '{\"by\": \"anapseudonym\"}' from voidbot.cases",
    "insert into voidbot.case_reports (case_id, reporter_id, text)"
    " select id, $5, 'anapseudonym does it' from voidbot.cases",
    "insert into voidbot.sanctions (community_id, subject, kind, rule_id, rule_version, category, case_id, proposer,"
    " approver, evidence_hash, expires_at, origin, dedupe) select $2, 'h', k, 'scam', 2, 'spam', c.id, 'fast', 'p:1',"
    " 'x', voidbot.now() + e, 'fast', k || c.id from voidbot.cases c,"
    " (values ('ban', interval '9 days'), ('timeout', interval '-9 days')) v(k, e)",
    "insert into voidbot.sanction_subjects (community_id, subject, person_id) values ($2, 'h', $1)",
    "insert into voidbot.sanction_texts (sanction_id, reason_member)"
    " select id, 'for copperfoxcombination' from voidbot.sanctions",
    "insert into voidbot.sanction_reversals (sanction_id, reason)"
    " select id, 'anapseudonym was right' from voidbot.sanctions where kind = 'timeout'",
    "insert into voidbot.appeals (sanction_id, person_id, text)"
    " select id, $1, 'copperfoxcombination' from voidbot.sanctions where kind = 'ban'",
    "insert into voidbot.acts (community_id, kind, front_end, room_id, person_id, dedupe, answer)"
    f" values ($2, 'ban', 'console', {_ROOM}, $1, 'd', 'anapseudonym is gone')",
    "insert into voidbot.native_acts (community_id, event_ref, kind, person_id, at, rule_name)"
    " values ($2, 'e', 'banned', $1, voidbot.now(), 'no anapseudonym')",
    "insert into voidbot.raids (community_id, accounts, until) values ($2, array['ana-4711'], 'infinity')",
    "insert into voidbot.spam_examples (community_id, text, spam, author_id)"
    " values ($2, 'copperfoxcombination', true, $1)",
)
EVERYWHERE = (
    "insert into voidbot.message_revisions (message_id, revision, room_id, archived_seq, text)"
    " select id, 1, room_id, 900, 'was quillwortlantern' from voidbot.messages where id = $3",
    "insert into voidbot.platform_memory (name, value) values ('gap:console:dm:ana-4711', '')",
    "insert into voidbot.attachments (message_id, ordinal, name, extracted_text)"
    " values ($3, 0, 'anapseudonym.txt', 'copperfoxcombination')",
    "insert into voidbot.reactions (message_id, person_id, emoji) values ($4, $1, 'copperfoxcombination')",
    "insert into voidbot.term_df (room_id, lexeme, df)"
    " select room_id, unnest(array['copperfoxcombination', 'number']), 1 from voidbot.messages where id = $3",
    "insert into voidbot.import_runs (community_id, file_sha256, format) values ($2, 'x', 'jsonl')",
    "insert into voidbot.import_errors (run_id, code, excerpt) values (1, 'bad', 'ana-4711: copperfoxcombination')",
    "insert into voidbot.decisions (inbox_id, room_id, person_id, message_ref, outcome, gates)"
    " select id, room_id, $1, message_ref, 'reply', '{\"who\": \"ana-4711\"}' from voidbot.inbox",
    "insert into voidbot.console_messages (room_id, nonce, text, private_to, outbox_id)"
    " select room_id, 'n', 'copperfoxcombination', 'ana-4711', id from voidbot.outbox",
    "insert into voidbot.usage (job_id, attempt, purpose, person_id, community_id, room_id)"
    " select 1, 1, 'reply', $1, community_id, id from voidbot.rooms",
    "insert into voidbot.rates (key, tat) values ('person:' || $1::bigint || ':ask', voidbot.now())",
    "insert into voidbot.audit (person_id, act, details) values ($1, 'void mode', '{\"name\": \"anapseudonym\"}')",
    "insert into voidbot.roles (community_id, role_ref) values ($2, 'r')",
    "insert into voidbot.membership_roles (person_id, role_id) select $1, id from voidbot.roles",
    "insert into voidbot.profile_facts (person_id, predicate, value, said_by, sources)"
    " values ($1, 'uses', 'copperfoxcombination', 'self', array[1])",
    "insert into voidbot.fact_anchors (fact_id, message_id, span_from, span_to, revision, account_id)"
    " select id, $3, 0, 3, 0, $1 from voidbot.profile_facts",
    "insert into voidbot.person_links (one_id, other_id) values ($1, $5)",
    "insert into voidbot.link_codes (code_hash, kind, person_id, room_id, front_end)"
    " select 'c', 'offer', $1, id, 'console' from voidbot.rooms limit 1",
    "insert into voidbot.plans (id, person_id, community_id, act, arguments)"
    " values ('p', $1, $2, 'x', '{\"topic\": \"quillwort\"}')",
    "insert into voidbot.exports (person_id, room_id, front_end, file_name)"
    " select $1, id, 'console', 'ana-4711.zip' from voidbot.rooms limit 1",
    "insert into voidbot.receipt_sources (outbox_id, n, kind, ref, audience)"
    " select outbox_id, 0, 'message', $3::bigint::text, array[room_id] from voidbot.receipts",
    "insert into voidbot.pass_runs (mind_id, pass, group_key, slot_key, slot, origin)"
    " values ('m', 'rumination', 'g', 'm/rumination/g/1', voidbot.now(), 'scheduled')",
    "insert into voidbot.pass_artifacts (run_id, name, body, people, expires_at)"
    " select id, 'answer', '\"copperfoxcombination\"', array[$1::bigint], 'infinity' from voidbot.pass_runs",
    "insert into voidbot.pass_artifacts (run_id, name, body, messages, expires_at)"
    " select id, 'packet', '{\"recent\": \"ana-4711\"}', array[$3::bigint], 'infinity' from voidbot.pass_runs",
    *MODERATED,
)


async def make_world(database: Database, *, others: int = 8) -> World:
    """Make the community, with Ana's data everywhere and neighbours' units that hold her words."""
    async with database.transaction() as tx:
        community = await places.add_community(tx, "console", "console", "Console")
        lobby = await places.add_room(
            tx, community, RoomKey("console", "lobby"), RoomKind.CHANNEL, "lobby", archive=ArchiveSwitch.ON
        )
        home = await places.add_community(tx, "console", f"direct:{ACCOUNT}", "anapseudonym")
        direct = await places.add_room(tx, home, RoomKey("console", f"dm:{ACCOUNT}"), RoomKind.DM, "anapseudonym")
        ana = (await people.ensure_person(tx, "console", ACCOUNT, community, "anapseudonym")).id
        await people.ensure_person(tx, "console", ACCOUNT, community, "anapseudonym the second")
        ben = (await people.ensure_person(tx, "console", "ben", community, "Ben")).id
        bot = (await people.ensure_person(tx, "console", "bot:self", community, "VoidBot", is_bot=True)).id
        await access.save_access(tx, lobby, community, everyone=False, users=[ana, ben])
        await access.save_access(tx, direct, home, everyone=False, users=[ana])
        said = await add_message(tx, lobby, community, ana, "m1", SECRET)
        await add_message(tx, lobby, community, ana, "m2", EDITED)
        quoted = await add_message(tx, lobby, community, ben, "m3", OTHERS)
        for n in range(others):
            await add_message(tx, lobby, community, ben, f"m{n + 4}", f"Something else number {n}")
        await add_message(tx, direct, home, ana, "m50", "in private: quillwort")
        answer = await _add_answer(tx, community, lobby, ana, bot)
        await tx.execute(
            "insert into voidbot.inbox (front_end, event_ref, community_id, room_id, person_id, message_ref, kind,"
            " text, payload, answer_token) values ('console', 'e1', $1, $2, $3, 'm1', 'text', $4, $5, 'ana-4711')",
            community, lobby, ana, ASKED, {"files": [{"name": "anapseudonym.txt"}]},
        )  # fmt: skip
        await tx.execute(
            "insert into voidbot.turns (key, community_id, room_id, person_id, front_end, reply_to)"
            " values ('k', $1, $2, $3, 'console', 'm1')",
            community, lobby, ana,
        )  # fmt: skip
        for statement in EVERYWHERE:
            given = (ana, community, said, quoted, ben)
            used = [n for n in range(1, 6) if f"${n}" in statement]
            for at, n in enumerate(used, start=1):
                statement = statement.replace(f"${n}", f"$<{at}>")
            await tx.execute(statement.replace("$<", "$").replace(">", ""), *(given[n - 1] for n in used))
        for message, text in await _texts(tx):
            await tx.execute(UNIT, message, text)
        await _think(tx, lobby, {ana, ben}, said, quoted)
    return World(database, community, lobby, direct, ana, ben, said, quoted, answer)


async def _texts(tx: Tx) -> list[tuple[int, str]]:
    """Return for each message what its unit holds: the room's words, as neighbours do."""
    rows = await tx.fetch(
        "select id, string_agg(text, ' ') over (partition by room_id order by sent_at rows between 2 preceding and 2"
        " following) as near from voidbot.messages"
    )
    return [(row["id"], row["near"]) for row in rows]


async def _think(tx: Tx, room: RoomId, people_: set[PersonId], said: int, quoted: int) -> None:
    """Have the mind note what Ana said, what Ben said of it, and propose a note that is refused."""
    mind_id = (await places.load_place(tx, room)).community.mind_id

    def note(id_: str, message: int, **more: object) -> Item:
        thought = {
            "summary": "How the safe is opened.",
            "claim": "By copperfoxcombination.",
            "tension": "Who knows it?",
        }
        memory = thought | {"memoryId": id_, "kind": "room_observation", "actionImplication": "Ask ana-4711.", **more}
        memory |= {"target": {"kind": "room", "id": str(room)}, "anchorRefs": [said_in(message)]}
        return Item(read_operation(json.dumps({"operation": "record_short_term_memory", "memory": memory})), id_)

    def said_in(message: int) -> dict[str, str]:
        return {"ref": f"message:{message}", "kind": "message"}

    packet = Packet(frozenset({room}), frozenset(people_), frozenset({f"message:{said}", f"message:{quoted}"}))
    by_ben = {"claim": "There is a safe.", "actionImplication": "Ask Ben."}
    refused = {"claim": "How the safe is opened.", "tension": "ana-4711"}
    items = (note("ana", said), note("ben", quoted, **by_ben), note("no", said, **refused))
    batch = Batch(mind_id=mind_id, actor=Actor(Emitter.CHAT), items=items, packet=packet)
    verdict = await open_minds().apply(tx, batch)
    assert [type(item.verdict) for item in verdict.items] == [Accepted, Accepted, Rejected]


async def _add_answer(tx: Tx, community: CommunityId, room: RoomId, ana: PersonId, bot: PersonId) -> int:
    """Add an answer to Ana that quotes her, as delivered and archived."""
    text = f"You said it yourself: {SECRET}"
    outbox_id = await tx.fetchval(
        "insert into voidbot.outbox (front_end, community_id, room_id, reply_to, kind, body, audience, dedupe, state,"
        " closed_at) values ('console', $1, $2, 'm1', 'reply', $3, array[$2::bigint], 'reply:1', 'sent', voidbot.now())"
        " returning id",
        community, room, text,
    )  # fmt: skip
    await tx.execute(
        "insert into voidbot.outbox_parts (outbox_id, n, text, nonce, state, external_id)"
        " values ($1, 1, $2, 'n1', 'sent', 's1')",
        outbox_id, text,
    )  # fmt: skip
    await tx.execute(
        "insert into voidbot.receipts (outbox_id, room_id, person_id, trigger, external_ids, sections)"
        " values ($1, $2, $3, 'message:m1', array['s1'], '[{\"name\": \"anapseudonym\"}]')",
        outbox_id, room, ana,
    )  # fmt: skip
    message = await add_message(tx, room, community, bot, "m40", text)
    await tx.execute(
        "update voidbot.messages set kind = 'bot_reply', platform_ref = 'own:s1', reply_to_ref = 'm1' where id = $1",
        message,
    )
    return message
