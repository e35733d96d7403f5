"""Every operation there is, in one list: what parsers read, models are told and the journal is replayed by."""

from typing import Annotated, get_args

from pydantic import Field, TypeAdapter

from core.domain.operations.agency import RetireAgencyPressure, UpsertAgencyPressure
from core.domain.operations.base import Operation
from core.domain.operations.distillation import ApplyMemoryDistillation, ProposeMemoryDistillation
from core.domain.operations.identity import CrystallizeMemoryIntoIdentity, ReviseDurableMemory
from core.domain.operations.keeping import ErasePerson, EvictEntries, UndoOperation, VoidSource
from core.domain.operations.memories import PruneShortTermMemories, RecordShortTermMemory, RetireDurableMemory
from core.domain.operations.obligations import (
    CloseOpenCase,
    RecordReviewedMessages,
    UpdateRepoActivityCursor,
    UpsertOpenCase,
)
from core.domain.operations.profile import ConfigureProfile
from core.domain.operations.receipts import MarkCandidateSpoken, RecordDeliveryReceipt, RetireDeliveryReceipts
from core.domain.operations.runtime import RecordLastRun, UpdateMood, UpdateSleepCycle, UpdateSpeakingPressure
from core.domain.operations.speech import AdvanceCandidate, QueueCandidateIntervention, RetireCandidateIntervention
from core.domain.operations.threads import MergeIncubationSupport

AnyOperation = (
    RecordReviewedMessages | UpsertOpenCase | CloseOpenCase | UpdateRepoActivityCursor
    | RecordDeliveryReceipt | AdvanceCandidate | MarkCandidateSpoken | RetireDeliveryReceipts
    | RecordShortTermMemory | PruneShortTermMemories | MergeIncubationSupport
    | ProposeMemoryDistillation | ApplyMemoryDistillation | ReviseDurableMemory | RetireDurableMemory
    | CrystallizeMemoryIntoIdentity | UpdateSleepCycle | UpdateSpeakingPressure | UpdateMood | RecordLastRun
    | ConfigureProfile
    | CrystallizeMemoryIntoIdentity | MergeIncubationSupport
    | QueueCandidateIntervention | RetireCandidateIntervention | UpsertAgencyPressure | RetireAgencyPressure
    | EvictEntries | VoidSource | ErasePerson | UndoOperation
)  # fmt: skip
OPERATIONS: dict[str, type[Operation]] = {
    each.model_fields["operation"].default: each for each in get_args(AnyOperation)
}
"""Every operation by its name on the wire."""
_ANY: TypeAdapter[AnyOperation] = TypeAdapter(Annotated[AnyOperation, Field(discriminator="operation")])


def read_operation(text: str | bytes) -> AnyOperation:
    """Return the operation that `text` holds as JSON.

    Raises:
        pydantic.ValidationError: It holds none.
    """
    return _ANY.validate_json(text, by_alias=True, by_name=False)
