"""The jobs of a conversation: what each carries and how it is queued. Payloads hold ids, never words."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

from core.domain.ids import CommunityId, OutboxId, PersonId, RoomId, TurnId
from core.domain.jobs import ADDRESSED_CHAT_HEAD_START_S, PASS_HEAD_START_S, NewJob, chat_lane, send_lane


class TurnWork(BaseModel):
    """Answer one turn: payload of `reply` and `command`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    turn_id: int


class SummaryWork(TurnWork):
    """Sum up what was said: payload of `summarize`.

    `rooms`: what to read, as far as the asker may. Without `since`, and with `usual`, since the asker last spoke there.
    """

    rooms: tuple[int, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    count: int = 500
    usual: bool = False


class SendWork(BaseModel):
    """Send one answer: payload of `send`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    outbox_id: int


def turn_job(
    kind: Literal["reply", "command"],
    turn_id: TurnId,
    *,
    community_id: CommunityId,
    room_id: RoomId,
    person_id: PersonId,
    trace: str,
    wait_s: float = 0.0,
) -> NewJob:
    """Return the job that answers a turn.

    Replies of one room run in order; so do one person's commands, which wait for no room.
    """
    return NewJob(
        kind=kind,
        pool="chat",
        lane=chat_lane(room_id) if kind == "reply" else f"command:{person_id}",
        payload=TurnWork(turn_id=turn_id).model_dump(),
        community_id=community_id,
        room_id=room_id,
        person_id=person_id,
        head_start_s=ADDRESSED_CHAT_HEAD_START_S,
        max_attempts=3,
        due_in_s=wait_s,
        trace=trace,
    )


def summary_job(
    work: SummaryWork, *, community_id: CommunityId, room_id: RoomId, person_id: PersonId, trace: str
) -> NewJob:
    """Return the job that sums up; it stands in the asker's own lane, so that no room waits for it."""
    return NewJob(
        kind="summarize",
        pool="chat",
        lane=f"command:{person_id}",
        payload=work.model_dump(mode="json"),
        community_id=community_id,
        room_id=room_id,
        person_id=person_id,
        head_start_s=ADDRESSED_CHAT_HEAD_START_S,
        max_attempts=3,
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
    asked: bool = True,
) -> NewJob:
    """Return the job that sends an answer; only processes with that front end's connection claim it.

    `asked`: somebody waits for it; what is said unasked comes after that.
    """
    return NewJob(
        kind="send",
        pool=f"send/{front_end}",
        lane=send_lane(room_id),
        payload=SendWork(outbox_id=outbox_id).model_dump(),
        community_id=community_id,
        room_id=room_id,
        person_id=person_id,
        head_start_s=ADDRESSED_CHAT_HEAD_START_S if asked else PASS_HEAD_START_S,
        max_attempts=5,
        trace=trace,
    )
