"""What can go wrong at the Telegram double on purpose: refusals with Telegram's words, planned faults, mutations."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

FLOOD_WAITS_S = (33, 149, 13_938)
"""Waits that bots have met in life, in seconds."""


class Refused(Exception):
    """An answer of the Bot API with `ok` false."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters


class Unimplemented(Exception):
    """Something that Telegram knows and the double does not; answered with 501 and written down."""


def bad_request(why: str, **parameters: int) -> Refused:
    """Return a 400 in Telegram's form."""
    return Refused(400, f"Bad Request: {why}", **parameters)


def forbidden(why: str) -> Refused:
    """Return a 403 in Telegram's form."""
    return Refused(403, f"Forbidden: {why}")


class FaultKind(StrEnum):
    """Faults of single calls and updates. For a refused connection see `TelegramServer.unreachable`."""

    STATUS_BEFORE = "status_before"
    """Nothing is done; answers `status` (502), from 500 on with a body of HTML."""
    STATUS_AFTER_COMMIT = "status_after_commit"
    """All is done; answers `status` (502) nevertheless."""
    CUT_AFTER_COMMIT = "cut_after_commit"
    """All is done; the connection ends without an answer."""
    HANG = "hang"
    """Nothing is done and no answer comes until the caller or the double leaves."""
    HANG_AFTER_COMMIT = "hang_after_commit"
    """All is done and no answer comes."""
    FLOOD = "flood"
    """Nothing is done; 429 with `retry_after` (33 seconds)."""
    FORGOTTEN_CONFIRMATION = "forgotten_confirmation"
    """The offset of a getUpdates that would confirm something is ignored."""
    REPEATED_WEBHOOK = "repeated_webhook"
    """An update that the webhook took with 2xx is delivered once more. Matched against the update's kind."""
    MALFORMED_UPDATE = "malformed_update"
    """The next update is stored broken: with `body`, or without its chat and sender. Matched against its kind.

    The library passes on what has no chat; a `body` of {} breaks every reading until it is confirmed.
    """


BEFORE = frozenset({FaultKind.STATUS_BEFORE, FaultKind.HANG, FaultKind.FLOOD})
AFTER = frozenset({FaultKind.STATUS_AFTER_COMMIT, FaultKind.CUT_AFTER_COMMIT, FaultKind.HANG_AFTER_COMMIT})
ONLY_POLLS = frozenset({FaultKind.HANG, FaultKind.FORGOTTEN_CONFIRMATION})


class Mutation(StrEnum):
    """Rules that the double can be told to drop, so that tests can prove that they need them."""

    COUNT_CODE_POINTS = "count_code_points"
    CONFIRM_ON_FETCH = "confirm_on_fetch"
    NO_409 = "no_409"
    NO_PRIVACY = "no_privacy"
    GENERAL_TAKES_THREAD_ONE = "general_takes_thread_one"
    EDIT_ANYTHING = "edit_anything"
    UNMODIFIED_EDIT_PASSES = "unmodified_edit_passes"
    MARKUP_UNCHECKED = "markup_unchecked"
    NO_DOWNLOAD_LIMIT = "no_download_limit"
    NO_CALLBACK_LIMIT = "no_callback_limit"
    NO_WEBHOOK_SECRET = "no_webhook_secret"
    WEBHOOK_TAKES_ANY_STATUS = "webhook_takes_any_status"
    DELETIONS_ARE_TOLD = "deletions_are_told"
    OLD_GROUP_STAYS_OPEN = "old_group_stays_open"


@dataclass(frozen=True, slots=True)
class Call:
    """One request of the bot. `params` are decoded from JSON except for texts; uploads stay uploads."""

    method: str
    params: Mapping[str, Any]


Matcher = str | Callable[[Call], bool] | None


@dataclass(slots=True)
class Fault:
    """A planned fault, good for `left` more times."""

    kind: FaultKind
    left: int
    match: Matcher
    params: dict[str, Any] = field(default_factory=dict)

    def fits(self, call: Call) -> bool:
        """Tell whether this call, or update in the clothes of a call, is meant."""
        match self.match:
            case None:
                return (call.method == "getUpdates") if self.kind in ONLY_POLLS else call.method != "getUpdates"
            case str():
                return call.method == self.match
            case _:
                return self.match(call)


class Faults:
    """The planned faults, in the order in which they were planned."""

    def __init__(self) -> None:
        self._planned: list[Fault] = []

    def plan(self, kind: FaultKind, times: int, match: Matcher, params: dict[str, Any]) -> None:
        """Add one fault that bites `times` times."""
        self._planned.append(Fault(FaultKind(kind), times, match, params))

    def take(self, kinds: frozenset[FaultKind], call: Call) -> Fault | None:
        """Return the first fault of these kinds that fits, and count it; None if all is to go well."""
        for fault in self._planned:
            if fault.left and fault.kind in kinds and fault.fits(call):
                fault.left -= 1
                return fault
        return None

    def unused(self) -> list[Fault]:
        """Return what was planned and never, or not often enough, came to pass."""
        return [fault for fault in self._planned if fault.left]

    def clear(self) -> None:
        """Forget all plans."""
        self._planned.clear()
