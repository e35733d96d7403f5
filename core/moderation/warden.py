"""Moderation at intake: what code finds in a message becomes a case in the transaction that stores the message.

It blocks nothing: a detector that fails is counted by the lane, and the message goes on to whoever answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from core.chat.admission import Arrival
from core.domain.messages import InboundMessage, MessageKind, Origin, ReactionChange
from core.domain.moderation.cases import Lane
from core.domain.moderation.rules import Rule
from core.domain.moderation.signals import Signal, Watched
from core.jobs.executor import Observe
from core.moderation.casework import PEOPLE_ALONE, Breach, Casework, strongest
from core.moderation.fast.lane import FastLane
from core.moderation.fast.windows import Windows
from core.moderation.rulebook import Book
from core.moderation.sanctioning import REACTION
from core.store import mod_rules
from core.store.engine import Tx

HELD = {
    Origin.BOT: "written by a program",
    Origin.WEBHOOK: "written by a webhook",
    Origin.CHANNEL: "written in the name of a channel",
}
"""Why a person decides about what no person is known to have written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warden:
    """What watching needs. `windows`: what was said in the last minutes, for the whole process."""

    lane: FastLane
    casework: Casework
    windows: Windows = field(default_factory=Windows)
    observe: Observe = lambda name, value, labels: None

    async def watch(self, tx: Tx, arrival: Arrival) -> None:
        """Look at one message, edit or reaction of a watched room; open or join the case that it makes."""
        message, room = arrival.message, arrival.room
        if message.origin is Origin.SELF or not await mod_rules.is_watched(tx, room.id):
            return
        community = arrival.community
        book = await self.casework.rulebook.load(tx, community.id, community.settings_version)
        rules = [rule for rule in book.rules if _holds(rule, arrival)]
        if message.kind is MessageKind.REACTION:
            await self._react(tx, arrival, book, rules)
            return
        watched = watched_of(arrival)
        signals = self.lane.read(watched, self.windows, rules)
        if not is_exempt(message):
            await self._judge(tx, arrival, book, rules, watched, signals)

    async def _react(self, tx: Tx, arrival: Arrival, book: Book, rules: Sequence[Rule]) -> None:
        change = arrival.message.reaction
        if change is None or change.change is ReactionChange.CLEAR or is_exempt(arrival.message):
            return
        watched = reacted(arrival)
        signals = self.lane.read_reactions(watched, change.emoji, self.windows, rules)
        await self._judge(tx, arrival, book, rules, watched, signals)

    def _count(self, signal: Signal) -> None:
        hint = "yes" if signal.finding.hint else "no"
        self.observe("signals_total", 1, {"detector": signal.finding.detector.value, "hint": hint})

    async def _judge(
        self,
        tx: Tx,
        arrival: Arrival,
        book: Book,
        rules: Sequence[Rule],
        watched: Watched,
        signals: list[Signal],
    ) -> None:
        """Let the gravest signal decide under which rule it is a case; hints alone are kept without one."""
        main = strongest(signals)
        for signal in signals:
            tx.on_commit(partial(self._count, signal))
        if main is None:
            await mod_rules.add_signals(tx, watched, [(signal, None) for signal in signals])
            return
        rule = next(rule for rule in rules if rule.id == main.rule_id)
        origin = arrival.message.origin
        hold = "" if origin in PEOPLE_ALONE else HELD.get(origin, "not written by a person")
        breach = Breach(message=watched, rule=rule, signals=tuple(signals))
        await self.casework.take_in(tx, book, breach, Lane.FAST, hold=hold)


def is_exempt(message: InboundMessage) -> bool:
    """Return whether its author is nobody whom code may open a case about: they look after the room themselves."""
    return message.admin or message.operator or message.moderator


def watched_of(arrival: Arrival) -> Watched:
    """Return a message or edit as it is looked at: everything that was said, with quoted blocks."""
    message = arrival.message
    return Watched(
        community_id=arrival.community.id,
        room_id=arrival.room.id,
        ref=message.message_id,
        revision=message.revision,
        person_id=arrival.person_id,
        at=message.sent_at,
        text="\n".join(filter(None, (message.text, *message.quotes))),
        display_name=message.display_name,
        attachments=message.attachments,
        forwarded=bool(message.forwarded_from),
        edited=message.kind is not MessageKind.TEXT,  # a command is seen by nobody and floods no room
        first=arrival.first,
        marks=message.marks,
    )


def reacted(arrival: Arrival) -> Watched:
    """Return a reaction as something of its giver; the message that it stands on is somebody else's, and stays."""
    message = arrival.message
    return Watched(
        community_id=arrival.community.id,
        room_id=arrival.room.id,
        ref=REACTION + (message.reply_to or message.message_id),
        revision=0,
        person_id=arrival.person_id,
        at=message.received_at,
        text="",
        display_name=message.display_name,
        marks=message.marks,
    )


def _holds(rule: Rule, arrival: Arrival) -> bool:
    return rule.holds_in(arrival.room.id) and arrival.person_id not in rule.exempt.people
