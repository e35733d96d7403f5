"""The jobs of moderation: what each carries and how it is queued. Payloads hold ids, never words."""

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from core.chat.choosing import TRIES
from core.domain.ids import CommunityId, RoomId
from core.domain.jobs import PASS_HEAD_START_S, KeyScope, NewJob, send_lane
from core.domain.moderation.cases import CaseId
from core.domain.moderation.sanctions import ActId, SanctionId

ACT_TRIES = 6


class News(StrEnum):
    """What a member is told of a sanction. Stored values never change."""

    DONE = "done"
    LIFTED = "lifted"
    UPHELD = "upheld"


class CaseWork(BaseModel):
    """Judge one case: payload of `case`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    case_id: int


class ActWork(BaseModel):
    """Do one act: payload of `act`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    act_id: int


class CardWork(BaseModel):
    """Bring the card of a case to how it stands: payload of `case_card`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    case_id: int


class InformWork(BaseModel):
    """Tell a member about a sanction: payload of `inform`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    sanction_id: int
    news: News = News.DONE


def case_job(case_id: CaseId, community_id: CommunityId) -> NewJob:
    """Return the job that judges a case; one that has not begun sees all that joined the case until then."""
    return NewJob(
        kind="case",
        pool="chat",
        lane=f"cases:{community_id}",
        payload=CaseWork(case_id=case_id).model_dump(),
        community_id=community_id,
        key=f"case:{case_id}",
        scope=KeyScope.PENDING,
        head_start_s=PASS_HEAD_START_S,
        max_attempts=5,
    )


def act_job(
    act_id: ActId, *, front_end: str, community_id: CommunityId, room_id: RoomId, due_in_s: float = 0.0
) -> NewJob:
    """Return the job that does an act; only processes with that front end's connection claim it."""
    return NewJob(
        kind="act",
        pool=f"send/{front_end}",
        lane=f"acts:{community_id}",
        payload=ActWork(act_id=act_id).model_dump(),
        community_id=community_id,
        room_id=room_id,
        due_in_s=due_in_s,
        max_attempts=ACT_TRIES,
    )


def card_job(case_id: CaseId, *, front_end: str, community_id: CommunityId, room_id: RoomId) -> NewJob:
    """Return the job that brings a card to how its case stands; one at a time, for a later one shows the same."""
    return NewJob(
        kind="case_card",
        pool=f"send/{front_end}",
        lane=send_lane(room_id),
        payload=CardWork(case_id=case_id).model_dump(),
        community_id=community_id,
        room_id=room_id,
        max_attempts=TRIES,
    )


def inform_job(sanction_id: SanctionId, news: News, *, front_end: str, community_id: CommunityId) -> NewJob:
    """Return the job that tells a member; each news of a sanction once."""
    return NewJob(
        kind="inform",
        pool=f"send/{front_end}",
        lane=f"inform:{community_id}",
        payload=InformWork(sanction_id=sanction_id, news=news).model_dump(),
        community_id=community_id,
        key=f"inform:{sanction_id}:{news}",
        scope=KeyScope.LIVE,
        max_attempts=5,
    )
