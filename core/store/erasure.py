"""Every place where data of people stands, and the statement that empties it: the hooks of an erasure.

A table that `personal.py` names has a hook here, or nothing starts (`check_hooks`). Each
statement may run any number of times and touches at most so many rows; the last run touches none.
"""

from collections.abc import Mapping, Sequence

from core.domain.erasure import EraseScope, EraseStep
from core.domain.errors import Misconfigured
from core.domain.ids import CommunityId, MessageId, PersonId
from core.store.engine import Tx
from core.store.eraser import LIMITS, WITHIN, Eraser
from core.store.mod_erasure import MODERATED
from core.store.personal import PERSONAL

ROWS = 2000
"""Rows of one statement."""
BATCH = 500
"""Messages that are buried together."""


# What rests on an erased message is no freer than the message was.
_RESTS = """exists (
    select 1 from voidbot.receipt_sources s join voidbot.messages v on v.id = s.ref::bigint
    where s.outbox_id = x.id and s.kind in ('message', 'passage') and s.ref ~ '^[0-9]{1,18}$'
      and v.delete_reason = 'erased')"""
_DIRECT = """
    select u.room_id from voidbot.room_access_users u join voidbot.rooms d on d.id = u.room_id
    where u.person_id = $1 and d.kind = 'dm'"""

_VICTIMS = f"""
with found as (
    (select x.id from voidbot.messages x where x.author_id = $1
       and ($5::bigint[] is null or x.id = any($5)) and {WITHIN.format(at="x.sent_at")} limit $6)
    union
    (select x.id from voidbot.messages x where x.proxy_of = $1
       and ($5::bigint[] is null or x.id = any($5)) and {WITHIN.format(at="x.sent_at")} limit $6)
    union
    (select x.id from voidbot.messages x where $7::boolean and x.room_id in ({_DIRECT})
       and x.delete_reason <> 'erased' limit $6))
select id from found limit $6"""
_VICTIMS_OF_MATTER = f"""
select x.id from voidbot.messages x where $1::bigint is null and x.delete_reason <> 'erased'
  and ($5::bigint[] is null or x.id = any($5)) and {WITHIN.format(at="x.sent_at")} limit $6"""
# The bot's own words that answered the person, or rest on what was erased.
_OWN_VICTIMS = f"""
select m.id from voidbot.messages m
join voidbot.receipts r on r.room_id = m.room_id and r.external_ids @> array[substr(m.platform_ref, 5)]
join voidbot.outbox x on x.id = r.outbox_id
where m.kind = 'bot_reply' and m.delete_reason <> 'erased' and m.platform_ref like 'own:%'
  and (r.person_id = $1 and $5::bigint[] is null and {WITHIN.format(at="m.sent_at")} or {_RESTS})
limit $6"""

# An index step that holds one of them writes its units first; they go with the others then.
_LOCK = "select id from voidbot.messages where id = any($1::bigint[]) order by id for update"
_NEAR = """
select distinct b.id from voidbot.messages v cross join lateral (
    (select n.id from voidbot.messages n where n.room_id = v.room_id and (n.sent_at, n.id) < (v.sent_at, v.id)
     order by n.sent_at desc, n.id desc limit 3)
    union all
    (select n.id from voidbot.messages n where n.room_id = v.room_id and (n.sent_at, n.id) > (v.sent_at, v.id)
     order by n.sent_at, n.id limit 3)
    union all
    select n.id from voidbot.messages n where n.room_id = v.room_id
      and n.reply_to_ref in (v.platform_ref, regexp_replace(v.platform_ref, '^own:', ''))) b
where v.id = any($1::bigint[]) and b.id <> all($1::bigint[])"""
_WORDS = """
select distinct u.room_id, l.lexeme from voidbot.units u cross join lateral unnest(u.tsv) l
where u.message_id = any($1::bigint[])"""
# Neighbours hold a few of the erased words beside their own. They are emptied at once and made anew by indexing.
_EMPTY_NEAR = """
with emptied as (update voidbot.units set tsv = '', unit_hash = '' where message_id = any($1::bigint[]))
update voidbot.messages set index_state = 'near' where id = any($1::bigint[]) and index_state = 'done'"""
_LOST_WORDS = """
delete from voidbot.term_df d using unnest($1::bigint[], $2::text[]) w(room_id, lexeme)
where d.room_id = w.room_id and d.lexeme = w.lexeme and not exists (
    select 1 from voidbot.units u where u.room_id = d.room_id
      and u.tsv @@ ('''' || replace(replace(w.lexeme, '\\', '\\\\'), '''', '''''') || '''')::tsquery)"""
_BURY = """
update voidbot.messages set text = '', author_id = null, proxy_of = null, forwarded_from = '', sources = null,
  deleted_at = coalesce(deleted_at, voidbot.now()), delete_reason = 'erased', index_state = 'none'
where id = any($1::bigint[])"""
# Names under which a proxy service showed the erased words, once nothing else stands under them.
_SHOWN_NAMES = """
delete from voidbot.person_names n using voidbot.people p
where p.id = n.person_id and p.kind = 'proxy' and p.id in (
    select m.author_id from voidbot.messages m where m.id = any($1::bigint[]) and m.proxy_of is not null)
  and not exists (select 1 from voidbot.messages m where m.author_id = p.id and m.id <> all($1::bigint[]))"""
_FACTS_WITHOUT_PROOF = """
delete from voidbot.profile_facts f where f.said_by <> 'corrected' and f.id in (
    select a.fact_id from voidbot.fact_anchors a where a.message_id = any($1::bigint[]))
  and not exists (select 1 from voidbot.fact_anchors a where a.fact_id = f.id and a.message_id <> all($1::bigint[]))"""

_BATCH = ("batch",)
_PERSON = ("person",)
_M, _W, _S, _P, _N = EraseStep.MESSAGES, EraseStep.WORK, EraseStep.SPEECH, EraseStep.PROFILE, EraseStep.NAMES

ERASERS: tuple[Eraser, ...] = (
    *MODERATED,
    # Work: what waits to be answered or said
    Eraser("inbox", _W, f"""
update voidbot.inbox set text = '', payload = '{{}}', answer_token = '', blank_after = null where id in (
    select x.id from voidbot.inbox x where x.person_id = $1 and $5::bigint[] is null
      and (x.text <> '' or x.payload <> '{{}}' or x.answer_token <> '')
      and {WITHIN.format(at="x.sent_at")} limit $6)""", LIMITS),
    Eraser("inbox", _S, f"""
update voidbot.inbox set text = '', payload = '{{}}', answer_token = '' where id in (
    select x.id from voidbot.inbox x join voidbot.messages m on m.room_id = x.room_id and m.platform_ref = x.message_ref
    where $1::bigint is null and m.delete_reason = 'erased' and x.text <> ''
      and ($5::bigint[] is null or m.id = any($5)) and {WITHIN.format(at="x.sent_at")} limit $6)""", LIMITS),
    Eraser("turns", _W, """
update voidbot.turns set state = 'silent', reason = 'trigger_deleted', closed_at = voidbot.now(), version = version + 1
where person_id = $1 and state in ('open', 'running') and trace <> $2
  and ($3::bigint[] is null or room_id = any($3))""", ("person", "trace", "rooms")),
    Eraser("outbox", _W, """
update voidbot.outbox x set state = 'dropped', reason = 'trigger_deleted', closed_at = voidbot.now(), body = null,
  dedupe = dedupe || ':dropped:' || id
where state = 'ready' and trace <> $2 and ($3::bigint[] is null or room_id = any($3)) and (private_to = $1 or exists (
    select 1 from voidbot.receipts r where r.outbox_id = x.id and r.person_id = $1))""",
           ("person", "trace", "rooms")),
    # Messages: one batch at a time, in this order
    Eraser("units", _M, "delete from voidbot.units where message_id = any($1::bigint[])", _BATCH),
    Eraser("term_df", _M, _LOST_WORDS, ("word_rooms", "lexemes")),
    Eraser("attachments", _M, "delete from voidbot.attachments where message_id = any($1::bigint[])", _BATCH),
    Eraser("reactions", _M, "delete from voidbot.reactions where message_id = any($1::bigint[])", _BATCH),
    Eraser("message_revisions", _M, """
update voidbot.message_revisions set text = null where message_id = any($1::bigint[]) and text is not null""", _BATCH),
    Eraser("profile_facts", _M, _FACTS_WITHOUT_PROOF, _BATCH),
    Eraser("fact_anchors", _M, "delete from voidbot.fact_anchors where message_id = any($1::bigint[])", _BATCH),
    Eraser("person_names", _M, _SHOWN_NAMES, _BATCH),
    Eraser("pass_artifacts", _M, "delete from voidbot.pass_artifacts where messages && $1::bigint[]", _BATCH),
    Eraser("messages", _M, _BURY, _BATCH),
    # Speech: what was said to the person, and what was made from the person's words
    Eraser("outbox", _S, f"""
update voidbot.outbox set body = case when closed_at is null then '' end where id in (
    select x.id from voidbot.outbox x left join voidbot.receipts r on r.outbox_id = x.id
    where x.body <> '' and (x.closed_at is not null and (r.person_id = $1 or x.private_to = $1)
      and $5::bigint[] is null and {WITHIN.format(at="x.created_at")} or {_RESTS}) limit $6)""", LIMITS),
    Eraser("outbox_parts", _S, """
update voidbot.outbox_parts p set text = null from voidbot.outbox o
where o.id = p.outbox_id and p.text is not null and (o.body is null or o.body = '' and o.closed_at is not null)""", ()),
    Eraser("console_messages", _S, f"""
delete from voidbot.console_messages c using voidbot.outbox x where x.id = c.outbox_id and {_RESTS}""", ()),
    Eraser("receipts", _S, f"""
update voidbot.receipts set gates = '{{}}', sections = '[]', guards = '[]' where outbox_id in (
    select x.outbox_id from voidbot.receipts x where x.person_id = $1 and $5::bigint[] is null
      and (x.gates <> '{{}}' or x.sections <> '[]' or x.guards <> '[]') and {WITHIN.format(at="x.at")} limit $6)""",
           LIMITS),
    Eraser("decisions", _S, f"""
delete from voidbot.decisions where id in (
    select x.id from voidbot.decisions x where x.person_id = $1 and $5::bigint[] is null
      and {WITHIN.format(at="x.at")} limit $6)""", LIMITS),
    Eraser("pass_artifacts", _S, """
delete from voidbot.pass_artifacts where people @> array[$1::bigint]""", _PERSON, whole=True),
    # Profile: facts, links, plans, files
    Eraser("profile_facts", _P, """
delete from voidbot.profile_facts where person_id = $1 and ($2::bigint[] is null or sources && $2)""",
           ("person", "rooms")),
    Eraser("fact_anchors", _P, "delete from voidbot.fact_anchors where account_id = $1", _PERSON, whole=True),
    Eraser("person_links", _P, """
delete from voidbot.person_links where one_id = $1 or other_id = $1""", _PERSON, whole=True),
    Eraser("link_codes", _P, """
delete from voidbot.link_codes where person_id = $1 or other_id = $1""", _PERSON, whole=True),
    Eraser("plans", _P, "delete from voidbot.plans where person_id = $1", _PERSON, whole=True),
    Eraser("exports", _P, "delete from voidbot.exports where person_id = $1", _PERSON, whole=True),
    Eraser("import_errors", _P, """
update voidbot.import_errors e set excerpt = '' from voidbot.import_runs i join voidbot.memberships m
  on m.community_id = i.community_id where i.id = e.run_id and m.person_id = $1 and e.excerpt <> ''""",
           _PERSON, whole=True),
    Eraser("reactions", _P, "delete from voidbot.reactions where person_id = $1", _PERSON, whole=True),
    # Names: last, because the summary is delivered by them
    Eraser("console_messages", _N, """
delete from voidbot.console_messages c where c.private_to = (select account_ref from voidbot.people where id = $1)
   or exists (select 1 from voidbot.receipts r where r.outbox_id = c.outbox_id and r.person_id = $1)""",
           _PERSON, whole=True),
    Eraser("usage", _N, f"""
update voidbot.usage u set person_id = null, room_id = case when u.room_id in ({_DIRECT}) then null else u.room_id end,
  community_id = case when u.room_id in ({_DIRECT}) then null else u.community_id end where person_id = $1""",
           _PERSON, whole=True),
    Eraser("receipt_sources", _N, """
delete from voidbot.receipt_sources s using voidbot.receipts r where r.outbox_id = s.outbox_id and r.person_id = $1""",
           _PERSON, whole=True),
    Eraser("audit", _N, """
update voidbot.audit set person_id = null, details = '{}' where person_id = $1""", _PERSON, whole=True),
    Eraser("rates", _N, """
delete from voidbot.rates where key like 'person:' || $1::bigint || ':%'""", _PERSON, whole=True),
    Eraser("platform_memory", _N, f"""
delete from voidbot.platform_memory where name in (
    select 'gap:' || r.platform || ':' || r.chat_ref from voidbot.rooms r where r.id in ({_DIRECT}))""",
           _PERSON, whole=True),
    Eraser("rooms", _N, f"""
delete from voidbot.communities c where c.id in (select d.community_id from voidbot.rooms d where d.id in ({_DIRECT}))
  and not exists (select 1 from voidbot.rooms r where r.community_id = c.id and r.id not in ({_DIRECT}))""",
           _PERSON, whole=True),
    Eraser("rooms", _N, f"delete from voidbot.rooms where id in ({_DIRECT})", _PERSON, whole=True),
    Eraser("room_access_users", _N, "delete from voidbot.room_access_users where person_id = $1", _PERSON, whole=True),
    Eraser("membership_roles", _N, "delete from voidbot.membership_roles where person_id = $1", _PERSON, whole=True),
    Eraser("memberships", _N, """
with gone as (delete from voidbot.memberships where person_id = $1 returning community_id)
update voidbot.communities c set access_epoch = access_epoch + 1 from gone where c.id = gone.community_id""",
           _PERSON, whole=True),
    Eraser("person_names", _N, "delete from voidbot.person_names where person_id = $1", _PERSON, whole=True),
    Eraser("people", _N, """
update voidbot.people set platform = 'erased', account_ref = id::text, kind = 'erased', opted_out = true,
  limits = 'default', first_seen = voidbot.now(), learn_me = false, dm_memory = false, unprompted = false,
  erasing = false where id = $1 and kind <> 'erased'""", _PERSON, whole=True),
    Eraser("erasure_needles", EraseStep.PROOF, """
delete from voidbot.erasure_needles where ledger_id = $1""", ("ledger",)),
)  # fmt: skip
"""Every hook there is, in the order in which an erasure uses them."""


BY_OPERATION = frozenset({"state_entries", "state_operations"})
"""What an operation of the mind empties, which its journal has to know of: `core.privacy.minding`."""


def unhooked(hooks: Sequence[Eraser] = ERASERS) -> list[str]:
    """Return the tables that hold data of people and have no hook."""
    return sorted(PERSONAL - BY_OPERATION - {hook.table for hook in hooks})


def check_hooks(hooks: Sequence[Eraser] = ERASERS) -> None:
    """Refuse to start with a table of people's data that an erasure would miss.

    Raises:
        Misconfigured: It names the tables.
    """
    if missing := unhooked(hooks):
        raise Misconfigured(
            f"erasure: {', '.join(missing)} holds data of people and has no hook; add one to ERASERS in"
            " core/store/erasure.py"
        )


def values(scope: EraseScope, person_id: PersonId | None, trace: str) -> dict[str, object]:
    """Return what the statements of an erasure take, by name."""
    return {
        "person": person_id,
        "rooms": scope.rooms,
        "since": scope.since,
        "before": scope.before,
        "messages": scope.messages,
        "most": ROWS,
        "trace": trace,
    }


async def run_hook(tx: Tx, hook: Eraser, given: Mapping[str, object]) -> int:
    """Run one hook once; return how many rows it touched."""
    return await tx.execute(hook.sql, *(given[name] for name in hook.takes))


async def list_victims(tx: Tx, scope: EraseScope, person_id: PersonId | None) -> list[MessageId]:
    """Return messages that are still to be buried, some at a time; empty when none is left."""
    given = (person_id, scope.rooms, scope.since, scope.before, scope.messages, BATCH)
    if person_id is None:
        rows = await tx.fetch(_VICTIMS_OF_MATTER, *given)
    else:
        rows = await tx.fetch(_VICTIMS, *given, scope.whole)
    return [MessageId(row["id"]) for row in rows]


async def list_own_victims(tx: Tx, scope: EraseScope, person_id: PersonId | None) -> list[MessageId]:
    """Return the bot's own archived words that answered the person or rest on what was erased."""
    rows = await tx.fetch(_OWN_VICTIMS, person_id, scope.rooms, scope.since, scope.before, scope.messages, BATCH)
    return [MessageId(row["id"]) for row in rows]


_VICTIM_UNITS = "select id, community_id from voidbot.units where message_id = any($1::bigint[])"


async def list_units(tx: Tx, batch: Sequence[MessageId]) -> dict[CommunityId, list[int]]:
    """Return the units of these messages by community: what a vector store is told to delete."""
    found: dict[CommunityId, list[int]] = {}
    for row in await tx.fetch(_VICTIM_UNITS, batch):
        found.setdefault(CommunityId(row["community_id"]), []).append(row["id"])
    return found


async def bury(tx: Tx, batch: Sequence[MessageId]) -> dict[str, int]:
    """Empty these messages with all that hangs on them; return the rows touched by table."""
    await tx.execute(_LOCK, batch)
    near = [row["id"] for row in await tx.fetch(_NEAR, batch)]
    words = await tx.fetch(_WORDS, [*batch, *near])
    await tx.execute(_EMPTY_NEAR, near)
    given = {
        "batch": batch,
        "word_rooms": [row["room_id"] for row in words],
        "lexemes": [row["lexeme"] for row in words],
    }
    touched: dict[str, int] = {}
    for hook in ERASERS:
        if hook.step is EraseStep.MESSAGES:
            touched[hook.table] = touched.get(hook.table, 0) + await run_hook(tx, hook, given)
    return touched


_AGAIN = """
select id from voidbot.messages where delete_reason = 'erased' and deleted_at >= $1 and id > $2 order by id limit $3"""


async def list_buried(tx: Tx, since: object, after: int) -> list[MessageId]:
    """Return what was buried since then, in order of ids: an index job may have worked beside us."""
    return [MessageId(row["id"]) for row in await tx.fetch(_AGAIN, since, after, BATCH)]


_LEFT = """
select id from voidbot.communities where state = 'gone' and left_at < voidbot.now() - $1::int * interval '1 day'
order by left_at, id limit 1"""
_PURGE = """
delete from voidbot.messages where id in (select id from voidbot.messages where room_id in (
    select id from voidbot.rooms where community_id = $1) limit $2)"""
_PURGE_REST = """
with kept as (
    update voidbot.usage set community_id = null, room_id = null where community_id = $1)
delete from voidbot.communities where id = $1 and not exists (
    select 1 from voidbot.messages m join voidbot.rooms r on r.id = m.room_id where r.community_id = $1)"""


async def find_left(tx: Tx, days: int) -> CommunityId | None:
    """Return a community that the bot was removed from so many days ago."""
    found = await tx.fetchval(_LEFT, days)
    return None if found is None else CommunityId(found)


async def purge(tx: Tx, community_id: CommunityId) -> int:
    """Remove some of a community's messages, or all the rest once none is left; return how many rows."""
    gone = await tx.execute(_PURGE, community_id, 2 * BATCH)
    return gone or await tx.execute(_PURGE_REST, community_id)
