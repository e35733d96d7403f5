"""Intake: one transaction stores an event, decides by all gates and queues the work (TX A)."""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from zoneinfo import ZoneInfo

from core.chat.admission import Arrival, Unwelcome, admit
from core.chat.changes import apply_delete, apply_edit, is_answered, withdraw_message
from core.chat.choosing import read_press
from core.chat.keeping import keep, keep_reaction
from core.chat.meeting import meet
from core.chat.notices import Notices
from core.chat.proxies import Pair, ProxyWatch
from core.chat.work import turn_job
from core.domain.archiving import ROOMS_ALONE, ArchivePolicy, Skip
from core.domain.budgets import PERSON_ASKS, ROOM_ASKS, parse_limits
from core.domain.catchup import ANSWERED_UNTIL
from core.domain.errors import Conflict
from core.domain.ids import InboxId, JobId, TurnId
from core.domain.messages import Address, InboundMessage, MessageKind, Origin, quiet_window
from core.domain.proxies import PROXIED_FOR, PROXY_WINDOW
from core.domain.rooms import Community, RoomKind
from core.domain.speech import NoSpeech, SilenceReason, should_reply
from core.jobs.executor import Fault, Observe
from core.ports import Accepted, Clock
from core.prompt.stock import StockKey
from core.store import access, budgets, decisions, inbox, jobs, people, places, proxies, rates
from core.store.engine import Database, Tx
from core.store.places import Place

CONFLICT_TRIES = 5
_MACHINES = frozenset({Origin.SELF, Origin.BOT, Origin.WEBHOOK, Origin.CHANNEL})
"""Whose words are never quoted as a person's."""


async def _nobody(tx: Tx, arrival: Arrival) -> None:
    """Nobody looks after what is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """What intake needs.

    `text_limits`: the longest text of each front end, in characters. `keeps_doors`: front ends whose rooms
    exist only here, so that we must check ourselves who may enter (the terminal). `question_of` returns the
    question of an `/ask` and whether its answer is private; None for any other command. `operators`: people
    who may operate the bot, as platform:account. `timezone`, `language`: of new communities.
    `account_hash`: under which the ledger of erasures knows an account. `policy`: what the operator lets be archived.
    `watch`: what was said in the last seconds, to tell copies from originals. `moderate`: looks at what was said, in
    the same transaction, and changes nothing about the answer. `fault`: for crash tests.
    """

    database: Database
    clock: Clock
    notices: Notices
    text_limits: Mapping[str, int]
    keeps_doors: frozenset[str]
    question_of: Callable[[str], tuple[str, bool] | None]
    operators: frozenset[str] = frozenset()
    timezone: str = "UTC"
    language: str = "en"
    account_hash: Callable[[str, str], str] = lambda platform, account_ref: ""
    policy: ArchivePolicy = ROOMS_ALONE
    watch: ProxyWatch = field(default_factory=ProxyWatch)
    moderate: Callable[[Tx, Arrival], Awaitable[None]] = _nobody
    observe: Observe = lambda name, value, labels: None
    fault: Fault = lambda point: None

    async def accept(self, message: InboundMessage) -> Accepted:
        """Store one event and queue what it asks for: all or nothing.

        Raises:
            Unavailable: The store is down; nothing was stored.
        """
        if f"{message.room.platform}:{message.person_ref}" in self.operators:
            message = replace(message, admin=True, operator=True)
        if message.voice_alone and Address.DM not in message.addressed_by:
            # Nobody can tell whom a voice speaks to, whatever it is a reply to.
            message = replace(message, addressed_by=frozenset())
        for left in reversed(range(CONFLICT_TRIES)):
            try:
                return await self._store_once(message)
            except Unwelcome:
                return Accepted("no_speech", SilenceReason.PERSON_OPTED_OUT, 0)
            except Conflict:  # a delete and a delivery may lock in opposite order: one of them starts over
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    async def _store_once(self, message: InboundMessage) -> Accepted:
        pair = self.watch.pair(message)
        async with self.database.transaction() as tx:
            accepted = await self._receive(tx, pair)
            self.fault("A.written")
        self.fault("A.committed")
        if not accepted.duplicate:
            self.watch.note(pair)
        return accepted

    async def _receive(self, tx: Tx, pair: Pair) -> Accepted:
        message = pair.message
        if message.kind in (MessageKind.DELETE, MessageKind.REACTION):
            place = await places.find_place(tx, message.room)
            if place is None:  # nothing of that room was ever heard
                return Accepted("no_speech", SilenceReason.NOT_ADDRESSED, 0)
            if message.kind is MessageKind.REACTION:
                await keep_reaction(tx, place, message, lambda: self._arrive(tx, message))
                await self._moderate_reaction(tx, place, message)
                return Accepted("no_speech", SilenceReason.NOT_ADDRESSED, place.room.id)
        arrival = await self._arrive(tx, message)
        if message.front_end in self.keeps_doors and not await access.may_enter(tx, arrival.room.id, arrival.person_id):
            return await _turn_away(tx, arrival)
        match message.kind:
            case MessageKind.TEXT | MessageKind.COMMAND:
                return await self._take(tx, arrival, pair)
            case MessageKind.EDIT | MessageKind.DELETE if await _store(tx, arrival, keep_text=False) is None:
                return Accepted("no_speech", SilenceReason.DUPLICATE, arrival.room.id, duplicate=True)
            case MessageKind.EDIT:
                added = await apply_edit(tx, arrival, self.clock.now())
                await self.moderate(tx, arrival)
                if added is not None:
                    return await self._answer(tx, arrival, added)
            case MessageKind.DELETE:
                await apply_delete(tx, arrival, lambda ref: self.watch.is_half(message.room, ref))
            case MessageKind.BUTTON:
                pressed = await read_press(tx, arrival)
                if pressed is not None:
                    return await self._take(tx, replace(arrival, message=pressed), Pair(pressed, pressed))
            case MessageKind.REACTION | MessageKind.SERVICE:
                pass
        return _silent(arrival, SilenceReason.NOT_ADDRESSED)

    async def _arrive(self, tx: Tx, message: InboundMessage) -> Arrival:
        place = await places.find_place(tx, message.room)
        own = message.front_end in self.keeps_doors
        if place is None:
            place = await meet(tx, message, own=own, timezone=self.timezone, language=self.language)
        room = place.room
        person = await people.ensure_person(
            tx,
            message.room.platform,
            message.person_ref,
            room.community_id,
            message.display_name,
            is_bot=message.origin in _MACHINES,
            limits="unlimited" if own else "default",
            typed=own,
            # Who deletes or reacts is told without a name; who writes without one has none.
            renames=bool(message.display_name) or message.kind in (MessageKind.TEXT, MessageKind.COMMAND),
        )
        if message.kind is not MessageKind.DELETE:
            await admit(tx, message, person, self.account_hash)
        return Arrival(
            message=message,
            room=room,
            community=place.community,
            person_id=person.id,
            opted_out=person.opted_out,
            dm_memory=person.dm_memory,
            limits=parse_limits(person.limits),
            trace=secrets.token_hex(8),
            policy=self.policy,
            first=person.met,
        )

    async def _moderate_reaction(self, tx: Tx, place: Place, message: InboundMessage) -> None:
        """Look at a reaction of somebody who is known; nobody is met by one."""
        person = await people.find_person(tx, message.room.platform, message.person_ref, place.community.id)
        if person is not None and person.member and not person.erasing and message.live:
            await self.moderate(tx, await self._arrive(tx, message))

    async def _take(self, tx: Tx, arrival: Arrival, pair: Pair) -> Accepted:
        if pair.original is not None or pair.copy is not None:
            arrival = await self._one_of_two(tx, arrival, pair)
        addressed = bool(arrival.message.addressed_by)
        inbox_id = await _store(tx, arrival, keep_text=addressed or arrival.message.album_id is not None)
        if inbox_id is None:
            return Accepted("no_speech", SilenceReason.DUPLICATE, arrival.room.id, duplicate=True)
        if self._is_talk(arrival.message) and not await self._keep(tx, arrival, pair):
            await inbox.withdraw(tx, inbox_id)
            return _silent(arrival, SilenceReason.TRIGGER_DELETED)
        if self._is_talk(arrival.message) or not arrival.message.answer_token:  # else nobody saw it but the bot
            await self.moderate(tx, arrival)
        joined = await self._join(tx, arrival, inbox_id)
        if joined is not None:
            return Accepted("reply", None, arrival.room.id, joined)
        if not addressed:
            return _silent(arrival, SilenceReason.NOT_ADDRESSED)
        return await self._answer(tx, arrival, inbox_id, pair.copy)

    async def _keep(self, tx: Tx, arrival: Arrival, pair: Pair) -> bool:
        """Archive the message if it is to be archived; return False if it is known to be gone."""
        decision = arrival.decision
        if isinstance(decision, Skip):
            reason = decision.reason
            tx.on_commit(lambda: self.observe("archive_skipped_total", 1, {"reason": reason}))
            return True
        return await keep(tx, arrival, pair)

    async def _one_of_two(self, tx: Tx, arrival: Arrival, pair: Pair) -> Arrival:
        """Note that the room's messages are copied; of the two halves one is answered, the one that stays."""
        await proxies.note_copy(tx, arrival.room.key)
        if pair.original is None:
            return arrival
        original, front_end = pair.original.message_id, arrival.message.front_end
        if await is_answered(tx, arrival.room, front_end, original):
            return replace(arrival, message=replace(arrival.message, addressed_by=frozenset()))
        await withdraw_message(tx, arrival.room, front_end, original)
        return arrival

    async def _join(self, tx: Tx, arrival: Arrival, inbox_id: InboxId) -> TurnId | None:
        """Make the message the rest of what its author has just begun to ask; addressed or not, it is one question."""
        message, room = arrival.message, arrival.room
        people_only = message.origin in (Origin.HUMAN, Origin.PROXIED)
        if message.kind is not MessageKind.TEXT or not (message.quiet_window and message.live and people_only):
            return None
        window = quiet_window(message, self.text_limits[message.front_end])
        turn_id = await inbox.join_turn(
            tx, room.id, arrival.person_id, message.front_end, window, restart=bool(message.addressed_by)
        )
        if turn_id is None:
            return None
        await inbox.keep_words(tx, inbox_id, message)
        version = arrival.community.settings_version
        await _decide(tx, arrival, inbox_id, None, version, {"joined": turn_id}, turn_id, None)
        return turn_id

    def _is_talk(self, message: InboundMessage) -> bool:
        """Return whether the room's people saw this said: no echo of ours, and no command but a public `/ask`."""
        if message.kind is MessageKind.COMMAND:
            asked = self.question_of(message.text)
            return asked is not None and not asked[1]
        return message.origin is not Origin.SELF

    async def _answer(
        self, tx: Tx, arrival: Arrival, inbox_id: InboxId, copy: InboundMessage | None = None
    ) -> Accepted:
        community = arrival.community
        reason, gates = await self._gates(tx, arrival, community, inbox_id)
        version = community.settings_version
        if reason is not None:
            await _decide(tx, arrival, inbox_id, reason, version, gates)
            return _silent(arrival, reason)
        turn_id, job_id = await self._open(
            tx, arrival, inbox_id, private=self._private(arrival, community), target=copy or arrival.message
        )
        await _decide(tx, arrival, inbox_id, None, version, gates, turn_id, job_id)
        if arrival.room.kind is RoomKind.DM and arrival.keeps and self._is_talk(arrival.message):  # said once
            dedupe = f"notice:{arrival.room.id}:dm_kept"
            await self.notices.say(tx, arrival.asked(inbox_id), StockKey.ROOM_DM_KEPT, dedupe)
        return Accepted("reply", None, arrival.room.id, turn_id)

    async def _gates(
        self, tx: Tx, arrival: Arrival, community: Community, inbox_id: InboxId
    ) -> tuple[SilenceReason | None, dict[str, object]]:
        """Ask the gates in order of cost: values first, then the pace, then the purses."""
        message, room = arrival.message, arrival.room
        now = self.clock.now()
        local = now.astimezone(ZoneInfo(community.timezone))
        verdict = should_reply(room, message.addressed_by, message.origin, local, arrival.opted_out)
        if isinstance(verdict, NoSpeech):
            return verdict.reason, {"mode": room.mode}
        if not message.live and now - message.sent_at > ANSWERED_UNTIL:
            return SilenceReason.TOO_OLD, {"age_s": round((now - message.sent_at).total_seconds())}
        if message.passed_over:
            return SilenceReason.SUPERSEDED, {}
        if message.voice_alone:
            await self.notices.unheard(tx, arrival.asked(inbox_id))
            return SilenceReason.UNREADABLE, {"kind": "voice"}
        # The original of a copy has asked for it already.
        wait_s = None if message.origin is Origin.PROXIED else await _pace(tx, arrival)
        if wait_s is not None:
            await self.notices.wait(tx, arrival.asked(inbox_id), wait_s)
            return SilenceReason.RATE_LIMITED, {"wait_s": round(wait_s)}
        answers = message.kind is not MessageKind.COMMAND or self.question_of(message.text) is not None
        spent = await budgets.look(tx, arrival.draw, now) if answers else None
        if spent is not None:
            private = self._private(arrival, community)
            await self.notices.spent(tx, arrival.asked(inbox_id), spent, community.timezone, private=private)
            return SilenceReason.BUDGET_SPENT, {"purse": spent.scope}
        return None, {"mode": room.mode, "addressed_by": sorted(message.addressed_by)}

    def _private(self, arrival: Arrival, community: Community) -> bool:
        """Return whether only the asker may see the answer: a command's, unless it is an `/ask` where talk is open."""
        if arrival.message.kind is not MessageKind.COMMAND:
            return False
        asked = self.question_of(arrival.message.text)
        if asked is None or asked[1]:
            return True
        local = self.clock.now().astimezone(ZoneInfo(community.timezone))
        open_talk = should_reply(arrival.room, frozenset({Address.MENTION}), arrival.message.origin, local)
        return isinstance(open_talk, NoSpeech)

    async def _open(
        self, tx: Tx, arrival: Arrival, inbox_id: InboxId, *, private: bool, target: InboundMessage
    ) -> tuple[TurnId, JobId | None]:
        """Open a turn with the job that answers it; `target`: what the answer is a reply to."""
        message, room = arrival.message, arrival.room
        command = message.kind is MessageKind.COMMAND
        asked = self.question_of(message.text) if command else None
        window = timedelta()
        if message.quiet_window and not command:
            window = quiet_window(message, self.text_limits[message.front_end])
            if target is message and message.origin is Origin.HUMAN:
                window = await _until_copied(tx, arrival, window)
        if asked is not None:
            await inbox.set_text(tx, inbox_id, asked[0])
        turn_id = await inbox.open_turn(
            tx,
            replace(target, event_id=message.event_id),
            community_id=room.community_id,
            room_id=room.id,
            person_id=arrival.person_id,
            private=private,
            window=window,
            trace=arrival.trace,
        )
        if message.album_id is not None:
            await inbox.gather_album(tx, room.id, arrival.person_id, message.album_id, turn_id)
        job = turn_job(
            "command" if command and asked is None else "reply",
            turn_id,
            community_id=room.community_id,
            room_id=room.id,
            person_id=arrival.person_id,
            trace=arrival.trace,
            wait_s=window.total_seconds(),
        )
        (job_id,) = await jobs.enqueue(tx, [job])
        return turn_id, job_id


async def _turn_away(tx: Tx, arrival: Arrival) -> Accepted:
    """Refuse entry to a room kept here: the decision is stored, nothing of the text is."""
    inbox_id = await _store(tx, arrival, keep_text=False)
    if inbox_id is not None:
        await _decide(tx, arrival, inbox_id, SilenceReason.NO_PERMISSION, 0, {})
    return _silent(arrival, SilenceReason.NO_PERMISSION)


async def _store(tx: Tx, arrival: Arrival, *, keep_text: bool) -> InboxId | None:
    return await inbox.add(
        tx,
        arrival.message,
        community_id=arrival.room.community_id,
        room_id=arrival.room.id,
        person_id=arrival.person_id,
        keep_text=keep_text,
        trace=arrival.trace,
    )


async def _until_copied(tx: Tx, arrival: Arrival, window: timedelta) -> timedelta:
    """Return how long to wait where a proxy service may be about to say it again by a webhook."""
    if arrival.message.live and await proxies.are_copied(tx, arrival.room.key, PROXIED_FOR):
        return max(window, PROXY_WINDOW)
    return window


async def _decide(
    tx: Tx,
    arrival: Arrival,
    inbox_id: InboxId,
    reason: SilenceReason | None,
    settings_version: int,
    gates: Mapping[str, object],
    turn_id: TurnId | None = None,
    job_id: JobId | None = None,
) -> None:
    await decisions.add(
        tx,
        inbox_id,
        room_id=arrival.room.id,
        person_id=arrival.person_id,
        message_ref=arrival.message.message_id,
        reason=reason,
        settings_version=settings_version,
        gates=gates,
        turn_id=turn_id,
        job_id=job_id,
    )


async def _pace(tx: Tx, arrival: Arrival) -> float | None:
    """Take one answer from the person's and the room's pace; return the seconds to wait if one refuses."""
    pace = arrival.limits.pace(PERSON_ASKS)
    person_key, room_key = f"person:{arrival.person_id}:ask", f"room:{arrival.room.id}:ask"
    if pace is None:
        return None
    return await rates.take_all(tx, [(person_key, pace), (room_key, ROOM_ASKS)])


def _silent(arrival: Arrival, reason: SilenceReason) -> Accepted:
    return Accepted("no_speech", reason, arrival.room.id)
