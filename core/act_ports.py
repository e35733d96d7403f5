"""Ports of moderation: what a platform does to members and rooms for us, and what it tells of others there."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from core.domain.ids import RoomKey
from core.domain.moderation.acts import Act, ActKind, Done, Joined, NativeAct, RoomSettings, Standing
from core.ports import Ambiguous, RetryAfter, SendRefused, Unsent

ActResult = Done | RetryAfter | Unsent | SendRefused | Ambiguous


class ModerationPort(Protocol):
    """What one platform can do about members and rooms. It holds no policy: whether to act is decided before.

    Raises:
        Unavailable: The platform did not answer while it was looked at something; nothing was done.
    """

    @property
    def name(self) -> str:
        """Return the key of its front end."""
        ...

    @property
    def can(self) -> frozenset[ActKind]:
        """Return what the platform can do at all."""
        ...

    @property
    def ban_removes_words(self) -> bool:
        """Return whether a ban takes everything with it that the member wrote, for good."""
        ...

    async def look(self, act: Act) -> Standing:
        """Return how the target of an act stands now, asked from the platform and not from memory."""
        ...

    async def do(self, act: Act) -> ActResult:
        """Do one act. Expected failures are values; a term is brought within what the platform takes."""
        ...

    async def settings(self, room: RoomKey, community_ref: str) -> RoomSettings:
        """Return what raid acts would change, as it stands."""
        ...

    async def open_direct(self, account_ref: str) -> RoomKey | None:
        """Return the direct room with a member, opened if need be; None where they cannot be written to."""
        ...

    async def native_since(self, community_ref: str, since: datetime) -> Sequence[NativeAct]:
        """Return what others did since, oldest first; empty where the platform keeps no log or does not show it."""
        ...


@runtime_checkable
class Acting(Protocol):
    """A front end that can do acts."""

    @property
    def acts(self) -> ModerationPort:
        """Return what does them."""
        ...


class NativeEvents(Protocol):
    """What front ends tell of joins and of acts that are not ours.

    Raises:
        Unavailable: The store is down; nothing was stored.
    """

    async def joined(self, event: Joined) -> None:
        """Somebody has joined."""
        ...

    async def acted(self, event: NativeAct) -> None:
        """Somebody else, or the platform itself, did something; heard twice it counts once."""
        ...
