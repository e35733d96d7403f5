"""Pairs what a person wrote with its copy by a webhook. Words are held in memory alone, until newer ones come.

A proxy service deletes the original and posts its copy; both and the deletion come in any order. What is paired is one
message: the copy, under its own name, for which the account that wrote the original answers.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from core.domain.ids import RoomKey
from core.domain.messages import InboundMessage, MessageKind, Origin
from core.domain.proxies import PROXY_WINDOW, is_copy

HELD_MOST = 2000


@dataclass(frozen=True, slots=True)
class Pair:
    """A message as it was heard, as it counts, and its other half: a copy counts as its writer's."""

    heard: InboundMessage
    message: InboundMessage
    original: InboundMessage | None = None
    copy: InboundMessage | None = None


class ProxyWatch:
    """The last seconds of what people and webhooks wrote; one of each process that hears a platform."""

    __slots__ = ("_held", "_paired")

    def __init__(self) -> None:
        self._held: deque[InboundMessage] = deque(maxlen=HELD_MOST)
        self._paired: deque[tuple[RoomKey, str]] = deque(maxlen=HELD_MOST)

    def pair(self, message: InboundMessage) -> Pair:
        """Return the message with its other half, if that was heard before it."""
        if message.kind is not MessageKind.TEXT:
            return Pair(message, message)
        match message.origin:
            case Origin.WEBHOOK:
                for original in self._of(Origin.HUMAN):
                    if is_copy(message, original):
                        return Pair(message, _owned(message, original), original=original)
            case Origin.HUMAN:
                for copy in self._of(Origin.WEBHOOK):
                    if is_copy(copy, message):
                        return Pair(message, message, copy=copy)
            case _:
                pass
        return Pair(message, message)

    def _of(self, origin: Origin) -> Iterator[InboundMessage]:
        for held in reversed(self._held):
            if held.origin is origin and not self.is_half(held.room, held.message_id):
                yield held

    def note(self, pair: Pair) -> None:
        """Remember what was stored; what is older than the window is forgotten."""
        heard = pair.heard
        if heard.kind is MessageKind.TEXT and heard.origin in (Origin.HUMAN, Origin.WEBHOOK):
            while self._held and heard.received_at - self._held[0].received_at > 2 * PROXY_WINDOW:
                self._held.popleft()
            self._held.append(heard)
        other = pair.original or pair.copy
        if other is not None:
            self._paired.extend(((heard.room, heard.message_id), (other.room, other.message_id)))

    def is_half(self, room: RoomKey, message_ref: str) -> bool:
        """Return whether a message is half of a pair: its deletion means nothing."""
        return (room, message_ref) in self._paired


def _owned(copy: InboundMessage, original: InboundMessage) -> InboundMessage:
    """Return the copy as its writer's: their account and standing, and what it was meant for."""
    return replace(
        copy,
        origin=Origin.PROXIED,
        person_ref=original.person_ref,
        display_name=original.display_name,
        username=original.username,
        addressed_by=original.addressed_by,
        reply_to=copy.reply_to or original.reply_to,
        moderator=original.moderator or original.admin or original.operator,
    )
