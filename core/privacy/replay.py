"""Erasing again what a restored backup brings back: nothing serves before this is done."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from core.domain.erasure import EraseScope, Reach
from core.domain.errors import Misconfigured
from core.domain.ids import PersonId
from core.domain.jobs import Snooze
from core.privacy.erasure import ErasureService
from core.privacy.hand import Hand
from core.privacy.key import ErasureKey
from core.privacy.ledger import Remembered
from core.store import erasures
from core.store.engine import Database, Tx
from core.store.erasures import Account, LedgerEntry

ACCOUNTS = 1000


async def replay_erasures(
    database: Database, service: ErasureService, entries: Sequence[Remembered], say: Callable[[str], None]
) -> int:
    """Do every remembered erasure again in a database that is not served yet; return how many found something.

    An account that came back after its erasure is another person: only what is older is erased.

    Raises:
        Misconfigured: An entry was written with another key, or a proof found something left.
    """
    done = 0
    for entry in entries:
        if entry.key_id != service.key.id:
            raise Misconfigured("erasure key: the ledger was written with another key; put that one back")
        by_hash = await _accounts(database, service.key) if entry.key_hash else {}
        account = by_hash.get(entry.key_hash)
        if entry.key_hash and (account is None or account.first_seen > entry.until_at):
            await _write_down(database, entry)
            continue
        await _erase_again(database, service, entry, None if account is None else account.person_id)
        done += 1
        say(f"erased again: {done} of {len(entries)}")
    return done


async def _accounts(database: Database, key: ErasureKey) -> dict[str, Account]:
    found: dict[str, Account] = {}
    after = 0
    hand = Hand(database)
    while batch := await hand.do(partial(erasures.list_accounts, after=after, limit=ACCOUNTS)):
        after = batch[-1].person_id
        found |= {key.person(each.platform, each.account_ref): each for each in batch}
    return found


async def _write_down(database: Database, entry: Remembered) -> LedgerEntry:
    async with database.transaction() as tx:
        return await erasures.add_entry(tx, entry.key_id, entry.key_hash, entry.scope, entry.until_at, entry.at)


async def _erase_again(
    database: Database, service: ErasureService, entry: Remembered, person_id: PersonId | None
) -> None:
    known = await _write_down(database, entry)
    scope = _older(entry)

    async def begin(tx: Tx) -> None:
        await erasures.again(tx, known, person_id, scope)

    hand = Hand(database)
    await hand.do(begin)
    while isinstance(await service.carry_on(hand, known.id), Snooze):
        pass  # nothing runs beside a restore: what it waits for is its own next step
    ended = await hand.do(partial(erasures.load, ledger_id=known.id))
    if ended is None or ended.state != "done":
        raise Misconfigured(
            f"erasure {known.id}: its proof found something left; see voidbot.erasures, then restore again"
        )


def _older(entry: Remembered) -> EraseScope:
    """Return the scope as far as the erasure reached in time; a person is erased whole."""
    scope = entry.scope
    if scope.reach in (Reach.PERSON, Reach.FACTS):
        return scope
    before = entry.until_at if scope.before is None else min(scope.before, entry.until_at)
    return replace(scope, before=before)
