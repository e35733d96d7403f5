"""Identifiers: our own are integers from the database, platforms' are text beside them."""

from dataclasses import dataclass
from typing import NewType

CommunityId = NewType("CommunityId", int)
RoomId = NewType("RoomId", int)
PersonId = NewType("PersonId", int)
MessageId = NewType("MessageId", int)
InboxId = NewType("InboxId", int)
TurnId = NewType("TurnId", int)
OutboxId = NewType("OutboxId", int)
JobId = NewType("JobId", int)

DEPLOYMENT = CommunityId(0)
"""The community id of work that belongs to no community."""


@dataclass(frozen=True, slots=True)
class RoomKey:
    """Where a platform's messages appear. `topic_ref` is empty where the platform has no topics."""

    platform: str
    chat_ref: str
    topic_ref: str = ""
