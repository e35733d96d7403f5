"""What a hook of an erasure is: a table, the step in which it is emptied, the statement, and what that takes."""

from dataclasses import dataclass

from core.domain.erasure import EraseStep

LIMITS = ("person", "rooms", "since", "before", "messages", "most")
WITHIN = """
    ($2::bigint[] is null or x.room_id = any($2)) and ($3::timestamptz is null or {at} >= $3)
    and ($4::timestamptz is null or {at} < $4)"""
"""The limits of a scope; each statement names its row `x` and the time that counts as `{at}`."""


@dataclass(frozen=True, slots=True)
class Eraser:
    """One hook. `takes`: what its `$1`, `$2` … stand for. `whole`: only where nothing of the person is left."""

    table: str
    step: EraseStep
    sql: str
    takes: tuple[str, ...]
    whole: bool = False
