"""What came in, what one person wants answered, and what was decided. Only this module writes these tables."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from core.domain.budgets import PersonLimits, parse_limits
from core.domain.ids import CommunityId, InboxId, JobId, PersonId, RoomId, TurnId
from core.domain.messages import FRAGMENT_COUNT, FRAGMENT_LIMIT, Attachment, InboundMessage
from core.domain.speech import SilenceReason
from core.store.engine import Row, Tx
from core.store.inbox_files import attachment_of, files_of
from core.store.words import clean

_ADD = """
insert into voidbot.inbox (front_end, event_ref, community_id, room_id, person_id, message_ref, kind, revision, text,
                           reply_to, payload, sent_at, received_at, trace, answer_token)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) on conflict do nothing returning id"""


async def add(
    tx: Tx,
    message: InboundMessage,
    *,
    community_id: CommunityId,
    room_id: RoomId,
    person_id: PersonId,
    keep_text: bool,
    trace: str,
) -> InboxId | None:
    """Take one event in; None if it was taken in before, whatever road it came by."""
    payload: dict[str, object] = {
        "admin": message.admin,
        "operator": message.operator,
        "moderator": message.moderator,
        "album": message.album_id,
        "files": files_of(message) if keep_text else [],
    }
    found = await tx.fetchval(
        _ADD,
        message.front_end,
        message.event_id,
        community_id,
        room_id,
        person_id,
        message.message_id,
        message.kind,
        message.revision,
        clean(message.told()) if keep_text else "",
        message.reply_to,
        payload,
        message.sent_at,
        message.received_at,
        trace,
        message.answer_token,
    )
    return None if found is None else InboxId(found)


async def gather_album(tx: Tx, room_id: RoomId, person_id: PersonId, album_id: str, turn_id: TurnId) -> None:
    """Make the items of an album that came before the one that speaks to us part of its turn."""
    await tx.execute(
        "update voidbot.inbox set turn_id = $4 where room_id = $1 and person_id = $2 and payload ->> 'album' = $3"
        " and turn_id is null and not gone and received_at > voidbot.now() - $5::interval",
        room_id,
        person_id,
        album_id,
        turn_id,
        _ALBUM_WITHIN,
    )


_ALBUM_WITHIN = timedelta(minutes=1)

_JOIN = """
update voidbot.turns set count = count + 1,
       closes_at = least(voidbot.now() + $4, opened_at + $5),
       restarted = restarted or state = 'running', version = version + 1
where id = (select id from voidbot.turns
            where room_id = $1 and person_id = $2 and front_end = $3 and count < $6 and not private
              and (state = 'open' and voidbot.now() < closes_at and voidbot.now() < opened_at + $5
                   or $7 and state = 'running' and not restarted and not shown and voidbot.now() < opened_at + $8)
            order by id desc limit 1 for update)
returning id"""


_RESTARTS_WITHIN = timedelta(minutes=10)


async def join_turn(
    tx: Tx, room_id: RoomId, person_id: PersonId, front_end: str, window: timedelta, *, restart: bool
) -> TurnId | None:
    """Add a fragment to the person's open turn.

    `restart`: or to one that runs and has shown nothing, which starts it over once.
    """
    found = await tx.fetchval(
        _JOIN, room_id, person_id, front_end, window, FRAGMENT_LIMIT, FRAGMENT_COUNT, restart, _RESTARTS_WITHIN
    )
    return None if found is None else TurnId(found)


_OPEN = """
insert into voidbot.turns (key, community_id, room_id, person_id, front_end, reply_to, private, closes_at, trace)
values ($1, $2, $3, $4, $5, $6, $7, voidbot.now() + $8, $9) returning id"""


async def open_turn(
    tx: Tx,
    message: InboundMessage,
    *,
    community_id: CommunityId,
    room_id: RoomId,
    person_id: PersonId,
    private: bool,
    window: timedelta,
    trace: str,
) -> TurnId:
    """Open a turn whose reply target is this message; the target never changes afterwards."""
    return TurnId(
        await tx.fetchval(
            _OPEN,
            f"{room_id}:{person_id}:{message.event_id}",
            community_id,
            room_id,
            person_id,
            message.front_end,
            message.message_id,
            private,
            window,
            trace,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """A turn with the texts and files that belong to it now. `account`, `name`, `limits`: of its person, now."""

    id: TurnId
    community_id: CommunityId
    room_id: RoomId
    person_id: PersonId
    front_end: str
    state: str
    private: bool
    reply_to: str
    opened_at: datetime
    wait: timedelta
    version: int
    rebuilt: bool
    trace: str
    job_id: JobId | None
    messages: tuple[str, ...]
    files: tuple[Attachment, ...]
    inbox_ids: tuple[InboxId, ...]
    asked_reply_to: str | None
    asked_at: datetime
    admin: bool
    operator: bool
    moderator: bool
    account: str
    name: str
    limits: PersonLimits
    answer_token: str = field(default="", repr=False)

    @property
    def text(self) -> str:
        """What the person wrote, fragments joined by line breaks."""
        return "\n".join(text for text in self.messages if text)


_TURN = """
select t.*, greatest(t.closes_at - voidbot.now(), interval '0') as wait,
       i.texts, i.files, i.ids, i.first_reply_to, i.first_sent, i.payload, i.answer_token,
       p.account_ref, p.limits, coalesce(n.name, p.account_ref) as name
from voidbot.turns t join voidbot.people p on p.id = t.person_id
left join voidbot.person_names n on n.person_id = p.id and n.kind = 'display' and n.valid_to is null
cross join lateral (
    select array_agg(text order by id) as texts, jsonb_agg(payload -> 'files' order by id) as files,
           array_agg(id order by id) as ids,
           (array_agg(reply_to order by id))[1] as first_reply_to, min(sent_at) as first_sent,
           (array_agg(payload order by id))[1] as payload, (array_agg(answer_token order by id))[1] as answer_token
    from voidbot.inbox where turn_id = t.id and kind in ('text', 'command') and not gone) i
where t.id = $1 for update of t"""


async def load_turn(tx: Tx, turn_id: TurnId) -> TurnRow:
    """Return the turn, locked until the transaction ends."""
    row = await tx.fetchrow(_TURN, turn_id)
    if row is None:
        raise LookupError(f"no turn {turn_id}")
    return _turn_of(row)


def _turn_of(row: Row) -> TurnRow:
    payload = row["payload"] or {}
    return TurnRow(
        id=TurnId(row["id"]),
        community_id=CommunityId(row["community_id"]),
        room_id=RoomId(row["room_id"]),
        person_id=PersonId(row["person_id"]),
        front_end=row["front_end"],
        state=row["state"],
        private=row["private"],
        reply_to=row["reply_to"],
        opened_at=row["opened_at"],
        wait=row["wait"],
        version=row["version"],
        rebuilt=row["rebuilt"],
        trace=row["trace"],
        job_id=None if row["job_id"] is None else JobId(row["job_id"]),
        messages=tuple(row["texts"] or ()),
        files=tuple(attachment_of(each) for files in row["files"] or () for each in files or ()),
        inbox_ids=tuple(InboxId(item) for item in row["ids"] or ()),
        asked_reply_to=row["first_reply_to"],
        asked_at=row["first_sent"] or row["opened_at"],
        admin=bool(payload.get("admin")),
        operator=bool(payload.get("operator")),
        moderator=bool(payload.get("moderator")),
        account=row["account_ref"],
        name=row["name"],
        limits=parse_limits(row["limits"]),
        answer_token=row["answer_token"] or "",
    )


async def set_job(tx: Tx, turn_id: TurnId, job_id: JobId | None) -> None:
    """Note which job answers a turn that was opened again."""
    await tx.execute("update voidbot.turns set job_id = $2 where id = $1", turn_id, job_id)


async def start_turn(tx: Tx, turn_id: TurnId) -> None:
    """Mark the turn as being worked on."""
    await tx.execute("update voidbot.turns set state = 'running' where id = $1 and state = 'open'", turn_id)


async def mark_shown(tx: Tx, turn_id: TurnId) -> None:
    """Note that words of the answer may be seen: no restart from here on."""
    await tx.execute("update voidbot.turns set shown = true where id = $1", turn_id)


async def silence_turn(tx: Tx, turn_id: TurnId, reason: SilenceReason) -> None:
    """Note that an answered turn stayed silent after all: its answer was withdrawn before it was sent."""
    await tx.execute("update voidbot.turns set state = 'silent', reason = $2 where id = $1", turn_id, reason)


_BLANK = timedelta(hours=24)
_END = """
with ended as (
    update voidbot.turns set state = case when $2::text is null then 'answered' else 'silent' end, reason = $2,
           closed_at = voidbot.now()
    where id = $1 and ($3::bigint is null or version = $3) and state in ('open', 'running') returning id),
texts as (
    update voidbot.inbox set blank_after = voidbot.now() + $4 where turn_id = $1 and blank_after is null)
select exists (select from ended)"""


async def end_turn(
    tx: Tx, turn_id: TurnId, reason: SilenceReason | None, *, expected_version: int | None = None
) -> bool:
    """Close the turn: answered, or silent for a reason. Its texts are blanked a day later.

    Returns:
        False if a fragment or an edit came since `expected_version` was read; nothing was changed then.
    """
    return bool(await tx.fetchval(_END, turn_id, reason, expected_version, _BLANK))


async def reopen_turn(tx: Tx, turn_id: TurnId) -> bool:
    """Open an answered turn once more because its answer may no longer be said; False the second time."""
    return bool(
        await tx.execute(
            "update voidbot.turns set state = 'open', rebuilt = true, version = version + 1, closes_at = voidbot.now()"
            " where id = $1 and not rebuilt",
            turn_id,
        )
    )


async def find_by_message(
    tx: Tx, front_end: str, room_id: RoomId, message_ref: str
) -> tuple[InboxId, TurnId | None] | None:
    """Return the event that brought a message, with its turn."""
    row = await tx.fetchrow(
        "select id, turn_id from voidbot.inbox where front_end = $1 and room_id = $2 and message_ref = $3"
        " and kind in ('text', 'command')",
        front_end,
        room_id,
        message_ref,
    )
    if row is None:
        return None
    return InboxId(row["id"]), None if row["turn_id"] is None else TurnId(row["turn_id"])


_REVISE = """
update voidbot.turns set version = version + 1, restarted = restarted or state = 'running'
where id = $1 and (state = 'open' or state = 'running' and not restarted and not shown) returning id"""


async def revise(tx: Tx, inbox_id: InboxId, turn_id: TurnId, message: InboundMessage | None) -> bool:
    """Give an unanswered turn the newer words of one of its messages; False if it is too late for that.

    `message` None: it has gone, and what was made from it begins anew.
    """
    if await tx.fetchval(_REVISE, turn_id) is None:
        return False
    if message is not None:
        await keep_words(tx, inbox_id, message)
    await tx.execute("update voidbot.inbox set revision = revision + 1 where id = $1", inbox_id)
    return True


async def withdraw(tx: Tx, inbox_id: InboxId) -> bool:
    """Take a message out of its turn because it is gone; return whether the turn has others left."""
    turn_id = await tx.fetchval(
        "update voidbot.inbox set gone = true, text = '', payload = payload - 'files' where id = $1 returning turn_id",
        inbox_id,
    )
    return bool(
        await tx.fetchval("select exists (select 1 from voidbot.inbox where turn_id = $1 and not gone)", turn_id)
    )


async def set_text(tx: Tx, inbox_id: InboxId, text: str) -> None:
    """Replace the text of an event that no turn has read yet."""
    await tx.execute("update voidbot.inbox set text = $2 where id = $1", inbox_id, clean(text))


async def keep_words(tx: Tx, inbox_id: InboxId, message: InboundMessage) -> None:
    """Replace text and files of an event by what was said."""
    await tx.execute(
        "update voidbot.inbox set text = $2, payload = payload || $3 where id = $1",
        inbox_id,
        clean(message.told()),
        {"files": files_of(message)},
    )


async def holds_text(tx: Tx, inbox_id: InboxId, text: str) -> bool:
    """Return whether the event has exactly this text: an edit that changes none is no edit."""
    return bool(
        await tx.fetchval(
            "select exists (select 1 from voidbot.inbox where id = $1 and text = $2)", inbox_id, clean(text)
        )
    )


async def blank_old(tx: Tx, limit: int = 5000) -> int:
    """Empty texts a day after their answer, or after they came if none was due; ids stay for deduplication."""
    answered = await tx.execute(
        "update voidbot.inbox set text = '', answer_token = '', blank_after = null, payload = payload - 'files'"
        " where id in (select id from voidbot.inbox where blank_after < voidbot.now() order by blank_after limit $1)",
        limit,
    )
    refused = await tx.execute(
        "update voidbot.inbox set text = '', answer_token = '', payload = payload - 'files'"
        " where id in (select id from voidbot.inbox where turn_id is null and text <> ''"
        " and received_at < voidbot.now() - $2::interval limit $1)",
        limit,
        _BLANK,
    )
    return answered + refused


async def end_abandoned(tx: Tx) -> int:
    """Close turns whose job is gone without an answer, as after a cancelled job; return how many."""
    rows = await tx.fetch(
        "select id from voidbot.turns t where state in ('open', 'running') and opened_at < voidbot.now() - $1::interval"
        " and not exists (select 1 from queue.job j where j.id = t.job_id)"
        " and not exists (select 1 from queue.later l where l.id = t.job_id) limit 1000",
        _RESTARTS_WITHIN,
    )
    for row in rows:
        await end_turn(tx, TurnId(row["id"]), SilenceReason.SUPERSEDED)
    return len(rows)


async def rehome(tx: Tx, newer: RoomId, older: RoomId, community_id: CommunityId) -> None:
    """Give what came in to one room, and its turns, to another."""
    for table in ("inbox", "turns"):
        await tx.execute(
            f"update voidbot.{table} set room_id = $2, community_id = $3 where room_id = $1",
            newer,
            older,
            community_id,
        )


async def mark_refs(tx: Tx, room_id: RoomId, mark: str) -> None:
    """Put `mark` before the platform's ids of what came in to a room: from now on it gives them out anew."""
    await tx.execute(
        "update voidbot.inbox set message_ref = $2 || '/' || message_ref where room_id = $1", room_id, mark
    )
