"""The jobs of a conversation: what each carries and how it is queued. Payloads hold ids, never words."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from core.domain.ids import CommunityId, OutboxId, PersonId, RoomId, TurnId
from core.domain.jobs import NewJob

ADDRESSED_HEAD_START_S = 600.0
"""Seconds by which an answer to a person goes before work that nobody waits for."""


class TurnWork(BaseModel):
    """Answer one turn: payload of `reply` and `command`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    turn_id: int


class SendWork(BaseModel):
    """Send one answer: payload of `send`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    outbox_id: int


def reply_job(
    turn_id: TurnId,
    *,
    community_id: CommunityId,
    room_id: RoomId,
    person_id: PersonId,
    trace: str,
    wait_s: float = 0.0,
) -> NewJob:
    """Return the job that answers a turn; turns of one room run in order."""
    return NewJob(
        kind="reply",
        pool="chat",
        lane=f"chat:{room_id}",
        payload=TurnWork(turn_id=turn_id).model_dump(),
        community_id=community_id,
        room_id=room_id,
        person_id=person_id,
        head_start_s=ADDRESSED_HEAD_START_S,
        max_attempts=3,
        due_in_s=wait_s,
        trace=trace,
    )


def command_job(
    turn_id: TurnId,
    *,
    community_id: CommunityId,
    room_id: RoomId,
    person_id: PersonId,
    trace: str,
    wait_s: float = 0.0,
) -> NewJob:
    """Return the job that runs a command; one person's commands run in order and wait for no room."""
    return NewJob(
        kind="command",
        pool="chat",
        lane=f"command:{person_id}",
        payload=TurnWork(turn_id=turn_id).model_dump(),
        community_id=community_id,
        room_id=room_id,
        person_id=person_id,
        head_start_s=ADDRESSED_HEAD_START_S,
        max_attempts=3,
        due_in_s=wait_s,
        trace=trace,
    )


def send_job(
    outbox_id: OutboxId,
    *,
    front_end: str,
    community_id: CommunityId,
    room_id: RoomId,
    person_id: PersonId | None,
    trace: str,
) -> NewJob:
    """Return the job that sends an answer; only processes with that front end's connection claim it."""
    return NewJob(
        kind="send",
        pool=f"send/{front_end}",
        lane=f"send:{room_id}",
        payload=SendWork(outbox_id=outbox_id).model_dump(),
        community_id=community_id,
        room_id=room_id,
        person_id=person_id,
        head_start_s=ADDRESSED_HEAD_START_S,
        max_attempts=5,
        trace=trace,
    )
