"""What an erasure empties of moderation: words, notes and the way from the ledger to a person.

What is in force stays in the ledger, as a hash with rule, kind and dates, so that nothing is shed by erasing; what is
over goes whole. An account that comes back has the same hash.
"""

from core.domain.erasure import EraseStep
from core.store.eraser import LIMITS, WITHIN, Eraser

_BATCH, _PERSON = ("batch",), ("person",)
_M, _W, _P, _N = EraseStep.MESSAGES, EraseStep.WORK, EraseStep.PROFILE, EraseStep.NAMES
_OF_BATCH = """(x.room_id, x.platform_ref) in (
    select m.room_id, m.platform_ref from voidbot.messages m where m.id = any($1::bigint[]))"""
_SUBJECTS = "select community_id, subject from voidbot.sanction_subjects where person_id = $1"

MODERATED: tuple[Eraser, ...] = (
    # Words that were said, wherever moderation keeps them
    Eraser("case_evidence", _M, f"""
update voidbot.case_evidence x set text = null, quote = '', note = '', files = '[]'
where {_OF_BATCH} and (text is not null or quote <> '' or note <> '' or files <> '[]')""", _BATCH),
    Eraser("mod_signals", _M, f"delete from voidbot.mod_signals x where {_OF_BATCH}", _BATCH),
    Eraser("review_window", _M, f"delete from voidbot.review_window x where {_OF_BATCH}", _BATCH),
    Eraser("review_window", _W, f"""
delete from voidbot.review_window where (room_id, platform_ref, revision) in (
    select x.room_id, x.platform_ref, x.revision from voidbot.review_window x where x.author_id = $1
      and $5::bigint[] is null and {WITHIN.format(at="x.sent_at")} limit $6)""", LIMITS),
    Eraser("case_evidence", _W, f"""
update voidbot.case_evidence set text = null, quote = '', note = '', files = '[]' where id in (
    select x.id from voidbot.case_evidence x where x.author_id = $1 and $5::bigint[] is null
      and (x.text is not null or x.quote <> '' or x.note <> '' or x.files <> '[]')
      and {WITHIN.format(at="x.sent_at")} limit $6)""", LIMITS),
    # What others wrote about the person, and what the person wrote about others
    Eraser("case_reports", _P, """
update voidbot.case_reports r set text = '' from voidbot.cases c
where c.id = r.case_id and c.subject_id = $1 and r.text <> ''""", _PERSON, whole=True),
    Eraser("case_reports", _P, "delete from voidbot.case_reports where reporter_id = $1", _PERSON, whole=True),
    Eraser("appeals", _P, "delete from voidbot.appeals where person_id = $1", _PERSON, whole=True),
    Eraser("spam_examples", _P, "delete from voidbot.spam_examples where author_id = $1", _PERSON, whole=True),
    Eraser("case_events", _P, """
update voidbot.case_events e set details = '{}' from voidbot.cases c
where c.id = e.case_id and c.subject_id = $1 and e.details <> '{}'""", _PERSON, whole=True),
    # The ledger: what is over goes whole, of the rest only the hash stays
    Eraser("sanctions", _P, f"""
select n from voidbot.clear_sanctions(array(
    select s.id from voidbot.sanctions s where (s.community_id, s.subject) in ({_SUBJECTS})
      and (s.expires_at <= voidbot.now() or s.dry_run
        or s.kind in ('note', 'warn', 'delete', 'kick') and not exists (
          select 1 from voidbot.sanctions o where o.case_id = s.case_id and o.expires_at > voidbot.now()))
    limit 500)) n where n > 0""",
           _PERSON, whole=True),
    Eraser("sanction_texts", _P, f"""
delete from voidbot.sanction_texts t using voidbot.sanctions s
where s.id = t.sanction_id and (s.community_id, s.subject) in ({_SUBJECTS})""", _PERSON, whole=True),
    Eraser("sanction_reversals", _P, f"""
update voidbot.sanction_reversals r set reason = '' from voidbot.sanctions s
where s.id = r.sanction_id and r.reason <> '' and (s.community_id, s.subject) in ({_SUBJECTS})""", _PERSON, whole=True),
    Eraser("sanction_subjects", _N, "delete from voidbot.sanction_subjects where person_id = $1", _PERSON, whole=True),
    Eraser("cases", _N, """
update voidbot.cases set subject_id = null, decision_reason = '', hold_reason = '', version = version + 1,
  status = 'closed', closed_at = coalesce(closed_at, voidbot.now()),
  outcome = case when outcome = '' then 'erased' else outcome end where subject_id = $1""", _PERSON, whole=True),
    Eraser("acts", _N, """
update voidbot.acts set person_id = null, message_ref = '', answer = '',
  state = case when state in ('ready', 'doing') then 'refused' else state end where person_id = $1""",
           _PERSON, whole=True),
    Eraser("native_acts", _N, "delete from voidbot.native_acts where person_id = $1", _PERSON, whole=True),
    Eraser("raids", _N, """
update voidbot.raids r set accounts = array_remove(r.accounts, p.account_ref) from voidbot.people p
where p.id = $1 and p.account_ref = any(r.accounts)""", _PERSON, whole=True),
    # What the person did as one of the staff
    Eraser("sanction_reversals", _N, """
update voidbot.sanction_reversals set by_person = null, reason = '' where by_person = $1""", _PERSON, whole=True),
    Eraser("case_events", _N, """
update voidbot.case_events set person_id = null, details = '{}' where person_id = $1""", _PERSON, whole=True),
    Eraser("mod_rules", _N, "update voidbot.mod_rules set set_by = null where set_by = $1", _PERSON, whole=True),
)  # fmt: skip
"""The hooks of moderation, in the order in which an erasure uses them."""
