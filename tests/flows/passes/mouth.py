"""A mind that has something to say: candidates queued, runs claimed and taken to their phase of speech."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any

from core.chat.voice import Voice
from core.domain.archiving import ROOMS_ALONE
from core.domain.ids import MessageId, RoomId, RoomKey
from core.domain.mind.facts import Emitter, speech_hash
from core.domain.passes import PassName, PassPolicy, Run, RunMode, RunState, Step, counts_of
from core.domain.rooms import ArchiveSwitch, RoomKind
from core.domain.speaking import SpeechRules
from core.domain.speech import candidate_of_key
from core.jobs.executor import Kind
from core.passes.gate import Gate
from core.passes.runner import PassSpec, PassWork, Runner, start
from core.passes.speak import DECISION, Speaking
from core.store import access, archive, passes, places
from core.store.access import ReadableRooms
from core.store.engine import Database, Row
from core.store.passes import NewRun
from tests.domain.chat_context import CATALOG
from tests.fakes import ManualClock
from tests.queue.harness import at_work, until, worker
from tests.store.minds import Home, codes, make_home

DRAWN = SpeechRules(threshold=0.3, threshold_open=0.3)
"""Rules under which a mind that nothing presses is drawn to speak: need starts at 0.35."""
HOUR_S = 3600.0
THOUGHTS = {
    "low": "Two lamps in the cellar flicker whenever it rains.",
    "high": "The old bridge needs a new railing before winter.",
    "thought": "Nobody has ever measured how deep the pond is.",
    "answer": "The stops are cut by the parser.",
}
"""Words that have little in common; what is not listed says its own name a few times."""


def wire(clock: ManualClock, **later: float) -> str:
    """A moment as operations name it."""
    return (clock.now() + timedelta(**later)).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Mouth:
    """A home whose open room takes speech unasked, and the phase of speech. `decision`: of the last run."""

    home: Home
    speaking: Speaking
    ids: "count[int]" = field(default_factory=lambda: count(1))
    decision: Mapping[str, Any] = field(default_factory=dict)

    @property
    def database(self) -> Database:
        return self.home.database

    async def queue(self, id_: str, draft: str = "", **more: Any) -> None:
        """Let the mind take up something to say."""
        assert await self.propose(id_, draft, **more) == []

    async def propose(
        self, id_: str, draft: str = "", *, room: RoomId | None = None, reply: MessageId | None = None,
        closed: bool = False, **more: Any,
    ) -> list[str]:  # fmt: skip
        """Let a model that has read the open room propose something to say; return the code of a refusal."""
        target = {"mode": "channel", "channelId": self.home.room if room is None else room}
        if reply is not None:
            target["replyToMessageId"] = reply
        speech = {
            "interventionId": id_,
            "kind": "ripe_thought_share" if reply is None else "direct_reply",
            "summary": "Say it.",
            "draft": draft or THOUGHTS.get(id_, " ".join([id_] * 4)),
            "deliveryTarget": target,
        }
        operation = {"operation": "queue_candidate_intervention", "intervention": speech | more}
        return codes(await self.home.apply(operation, by=Emitter.RUMINATION, closed=closed))

    async def owe(self, message: MessageId) -> None:
        """Let the mind owe an answer to a message."""
        case = {"sourceMessageId": message, "status": "pending", "summary": "Somebody asked."}
        await self.home.accept({"operation": "upsert_open_case", **case}, by=Emitter.RUMINATION)

    async def claim(self, mode: RunMode = RunMode.NORMAL, room: RoomId | None = None) -> Run:
        """Claim a run of the group of a room, at its first phase."""
        home, n = self.home, next(self.ids)
        async with self.database.transaction() as tx:
            group = (await self.speaking.gate.groups.load(tx, home.mind_id))[home.room if room is None else room]
            slot = NewRun(
                mind_id=home.mind_id, name=PassName.RUMINATION, group=group, slot_key=f"test/{n}",
                slot=home.clock.now(), label=str(n), mode=mode,
            )  # fmt: skip
            (run,) = await passes.claim(tx, [slot])
        return run

    async def speak(self, mode: RunMode = RunMode.NORMAL, room: RoomId | None = None) -> dict[str, int]:
        """Run the phase once for the group of a room; return what it counted, without zeros."""
        run = await self.claim(mode, room)
        return await self.go_through(run)

    async def go_through(self, run: Run) -> dict[str, int]:
        """Take a claimed run through the phase, in one transaction."""
        async with self.database.transaction() as tx:
            held = await passes.take(tx, run.id, run.n)
            assert held is not None
            result = await self.speaking(tx, held)
            await passes.close(tx, held, Step(RunState.FINISHED, held.phase, 1), result)
        await self.read(run)
        return {name: n for name, n in counts_of(result).items() if n}

    async def work(self, run: Run) -> None:
        """Let a worker take a claimed run through the phase, with whatever it asks outside."""
        spec = PassSpec(run.name, {run.phase: self.speaking.phase()})
        runner = Runner(specs={run.name: spec}, clock=self.home.clock, observe=lambda name, value, labels: None)
        kind = Kind(name="pass", pool="pass", payload=PassWork, run=runner.run)

        async def over() -> bool:
            async with self.database.transaction(durable=False) as tx:
                found = await passes.find(tx, run.id)
            return found is not None and not found.state.active

        async with self.database.transaction() as tx:
            await start(tx, [run], {run.mind_id: self.home.community})
        async with at_work(worker(self.database, kind, pools={"pass": 1}, clock=self.home.clock)):
            await until(over)
        await self.read(run)

    async def read(self, run: Run) -> None:
        """Look at what a run decided."""
        async with self.database.transaction() as tx:
            self.decision = await passes.get(tx, run.id, DECISION) or {}

    def outcomes(self) -> dict[str, str]:
        """What the last run decided about each candidate it looked at, with the code or the rules that held it."""
        found = {}
        for each in self.decision["candidates"]:
            held = [rule["rule"] for rule in each["rules"] if not rule["passed"]]
            why = each["why"] or ",".join(held) if each["outcome"] != "spoken" else ""
            found[each["id"]] = f"{each['outcome']}:{why}".rstrip(":")
        return found

    def details(self, id_: str) -> dict[str, str]:
        """What the rules that held a candidate said in the last run."""
        (found,) = [each for each in self.decision["candidates"] if each["id"] == id_]
        return {rule["rule"]: rule["detail"] for rule in found["rules"] if not rule["passed"]}

    async def rows(self) -> list[Row]:
        """The outbox."""
        async with self.database.transaction() as tx:
            return await tx.fetch("select * from voidbot.outbox order by id")

    async def said(self) -> list[str]:
        """What stands in the outbox, in order, empty where the words are gone."""
        return [row["body"] or "" for row in await self.rows()]

    async def statuses(self) -> dict[str, str]:
        """Where each candidate stands; of one that is over also why."""
        async with self.database.transaction() as tx:
            rows = await tx.fetch(
                "select entry_id, body->>'status' as status, retired_reason from voidbot.state_entries"
                " where type = 'candidate' order by entry_id"
            )
        return {row["entry_id"]: row["retired_reason"] or row["status"] for row in rows}

    async def arrive(self) -> None:
        """Let everything in the outbox have arrived, as its delivery would record it."""
        async with self.database.transaction() as tx:
            sent = await tx.fetch(
                "update voidbot.outbox o set state = 'sent', closed_at = voidbot.now() where state = 'ready'"
                " returning *, (select m.id from voidbot.messages m where m.room_id = o.room_id"
                " and m.platform_ref = o.reply_to) as message"
            )
        for row in sent:
            await self.record(row)

    async def record(self, row: Row) -> None:
        """Let the mind know of something that arrived, and of the candidate that it was, if it was one."""
        text, spoken = row["body"], candidate_of_key(row["dedupe"])
        receipt = {
            "outboxId": row["id"], "cause": "reply" if spoken is None else "candidate", "roomId": row["room_id"],
            "transport": "console", "sentMessageIds": ["s1"], "contentLength": len(text), "chunkCount": 1,
            "preview": text, "contentHash": speech_hash(text), "sentAt": wire(self.home.clock), "outcome": "sent",
            "deliveryRef": "said",
        }  # fmt: skip
        receipt |= {} if row["message"] is None else {"replyToMessageId": row["message"]}
        receipt |= {} if spoken is None else {"interventionId": spoken}
        marked = {"operation": "mark_candidate_spoken", "interventionId": spoken, "receiptId": f"receipt:{row['id']}"}
        await self.home.accept(
            {"operation": "record_delivery_receipt", "receipt": receipt},
            *([] if spoken is None else [marked]),
            by=Emitter.PARENT,
        )

    async def answer(self, message: MessageId) -> None:
        """Let a reply to a message be on its way."""
        await self.do(
            "insert into voidbot.outbox (front_end, community_id, room_id, reply_to, kind, body, audience, dedupe)"
            " select 'console', community_id, room_id, platform_ref, 'reply', 'It is so.', '{}', 'reply:' || id"
            " from voidbot.messages where id = $1",
            message,
        )

    async def do(self, sql: str, *args: object) -> None:
        """Change something behind the phase's back."""
        async with self.database.transaction() as tx:
            await tx.execute(sql, *args)

    async def open_room(self, name: str) -> RoomId:
        """Another room that everyone reads, archived, where speech unasked is welcome."""
        home = self.home
        async with self.database.transaction() as tx:
            room = await places.add_room(
                tx, home.community, RoomKey("console", name), RoomKind.TERMINAL, name, archive=ArchiveSwitch.ON
            )
            await access.save_access(tx, room, home.community, everyone=True)
            await tx.execute("update voidbot.rooms set unattended = true, mode = 'lurk' where id = $1", room)
        await self.hear(room)
        return room

    async def hear(self, room: RoomId | None = None, text: str = "a word") -> MessageId:
        """Let Ana say something now."""
        home = self.home
        message = archive.NewMessage(
            room_id=home.room if room is None else room, community_id=home.community, author_id=home.ana,
            platform_ref=f"h{next(self.ids)}", kind="text", text=text, sent_at=home.clock.now(),
        )  # fmt: skip
        async with self.database.transaction() as tx:
            added = await archive.add_message(tx, message)
        assert added is not None
        return added


async def make_mouth(database: Database, clock: ManualClock, rules: SpeechRules = DRAWN, **more: Any) -> Mouth:
    """A home whose open room takes speech unasked. `policy`: of the gate; the rest goes to the phase."""
    home = await make_home(database, clock)
    async with database.transaction() as tx:
        await tx.execute("update voidbot.rooms set unattended = true, mode = 'lurk' where id = $1", home.room)
    gate = Gate(
        policy=more.pop("policy", PassPolicy()), archive=ROOMS_ALONE, groups=home.service.loader.groups, clock=clock
    )
    speaking = Speaking(
        gate=gate, minds=home.service, readable=ReadableRooms(), voice=Voice(CATALOG.stock), rules=rules, **more
    )
    return Mouth(home, speaking)
