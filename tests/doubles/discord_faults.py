"""What may go wrong at the Discord double, on order: each fault has a kind, a count and a matcher."""

from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any


class FaultKind(StrEnum):
    """The kinds of faults. REST faults match "METHOD /path", those of events the event's name; `*` is any text."""

    STATUS_BEFORE = "status_before"  # status=502: nothing was done
    STATUS_AFTER = "status_after"  # status=502: it was done all the same
    CUT_AFTER = "cut_after"  # the connection breaks after it was done
    DELAY = "delay"  # seconds=0.2: the answer is held back, after it was done
    UNANNOUNCED_429 = "unannounced_429"  # retry_after=0.1, is_global=False; with skip=1 between two command writes
    DUPLICATE_EVENT = "duplicate_event"
    LATE_EVENT = "late_event"  # held back until another shard was told something, or for seconds=0.2
    MALFORMED_EVENT = "malformed_event"  # damage=missing_author | unknown_type | null_object
    NO_HEARTBEAT_ACK = "no_heartbeat_ack"
    REFUSE_RESUME = "refuse_resume"
    REFUSE_IDENTIFY = "refuse_identify"  # close_code=4004 closes; without it the session is invalid
    GATEWAY_DOWN = "gateway_down"  # one connection attempt ends before it began


class Mutation(StrEnum):
    """Ways to make the double wrong on purpose, so that tests prove that they would notice."""

    NO_NONCE_FOLD = "no_nonce_fold"
    RESUME_REPLAYS_NOTHING = "resume_replays_nothing"
    RESUME_ONE_TOO_MANY = "resume_one_too_many"
    NO_VIA = "no_via"
    JSON_CHARSET = "json_charset"
    NO_CONTENT_LIMIT = "no_content_limit"


@dataclass(slots=True)
class Fault:
    """One order: the next `times` matches fail, after `skip` that do not."""

    kind: FaultKind
    times: int
    match: str
    skip: int
    params: dict[str, Any] = field(default_factory=dict)


class Faults:
    """The open orders, oldest first."""

    def __init__(self) -> None:
        self._open: list[Fault] = []

    def add(self, kind: FaultKind | str, times: int, match: str | None, skip: int, params: dict[str, Any]) -> Fault:
        fault = Fault(FaultKind(kind), times, match or "*", skip, params)
        self._open.append(fault)
        return fault

    def take(self, kind: FaultKind, subject: str = "") -> Fault | None:
        """Return the oldest fault of a kind that matches, and count it; None: all goes well."""
        for fault in self._open:
            if fault.kind is kind and fault.times > 0 and fnmatchcase(subject, fault.match):
                if fault.skip > 0:
                    fault.skip -= 1
                    return None
                fault.times -= 1
                return fault
        return None

    def unused(self) -> list[Fault]:
        return [fault for fault in self._open if fault.times > 0]


def damaged(data: dict[str, Any], damage: str) -> dict[str, Any]:
    """Return an event that breaks a promise of the platform."""
    match damage:
        case "missing_author":
            return {name: value for name, value in data.items() if name != "author"}
        case "unknown_type":
            return data | {"type": 9_999}
        case "null_object":
            return data | {"author": None}
        case _:
            raise ValueError(f"no damage is called {damage!r}")
