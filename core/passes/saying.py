"""Something said unasked on its way: the row of the outbox, the job that sends it, the draft of its receipt."""

from dataclasses import dataclass

from core.chat.answers import queue_unasked
from core.domain.ids import OutboxId
from core.domain.mind.entries import Entry
from core.domain.mind.speech import Candidate
from core.domain.passes import Run
from core.domain.prompt import SourceKind
from core.domain.speech import Draft, Receipt, ReceiptSource, SpeechKind, speech_key
from core.passes.situation import Situation
from core.store import speaking
from core.store.engine import Tx
from core.store.places import Place
from core.store.speaking import Making

UNASKED, OWED = "speech:unasked", "speech:owed"
"""The rules by which something was said, as receipts name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """A candidate that may be said, in the words that may be said. `fired`: guards that changed them."""

    entry: Entry
    body: Candidate
    place: Place
    text: str
    fired: tuple[str, ...]
    owed: bool


async def queue_speech(tx: Tx, run: Run, said: Saying, situation: Situation) -> OutboxId | None:
    """Queue it to be sent once; None if this try stands in the outbox already."""
    room = said.place.room
    reply = situation.reply_of(said.body)
    draft = Draft(
        kind=SpeechKind.SPEECH,
        room_id=room.id,
        front_end=room.key.platform,
        reply_to=None if reply is None else reply.ref,
        text=said.text,
        audience=said.entry.sources | {room.id},
        dedupe=speech_key(run.mind_id, said.entry.id, said.body.attempts),
    )
    receipt = _receipt(run, said, situation, await speaking.find_making(tx, run.mind_id, said.entry.id))
    person = None if reply is None else reply.author_id
    return await queue_unasked(
        tx, draft, receipt, community_id=room.community_id, trace=f"run:{run.id}", person_id=person
    )


def _receipt(run: Run, said: Saying, situation: Situation, making: Making) -> Receipt:
    return Receipt(
        trigger=f"candidate:{said.entry.id}",
        rule=OWED if said.owed else UNASKED,
        provider=making.provider or "code",
        model=making.model,
        usd_micro=making.usd_micro,
        input_tokens=making.tokens_in,
        output_tokens=making.tokens_out,
        prompt_sha256=making.prompt_hash,
        role=making.author,
        attempts=said.body.attempts + 1,
        guards=said.fired,
        gates={
            "mode": said.place.room.mode,
            "settings_version": said.place.community.settings_version,
            "run": run.id,
            "made_in_run": making.run_id,
        },
        sources=rests_on(said, situation),
    )


def rests_on(said: Saying, situation: Situation) -> tuple[ReceiptSource, ...]:
    """Return what it rests on: itself, the memories and the pressure that it was made from, what it answers."""
    entries = {said.entry.id: said.entry.sources}
    entries |= {id_: fact.sources for id_, fact in situation.basis_of(said.body).items()}
    found = [ReceiptSource(SourceKind.MEMORY, id_, sources) for id_, sources in entries.items()]
    reply = situation.reply_of(said.body)
    if reply is not None:
        found.append(ReceiptSource(SourceKind.MESSAGE, str(reply.id), frozenset({reply.room_id})))
    return tuple(found)
