"""The proof of an erasure: what was a person's is kept sealed until everything was read through for it."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from core.domain.needles import TEXT_CHARS, Needles, forms
from core.privacy import ledger
from core.privacy.hand import Hand
from core.privacy.key import KEY_FILE, ErasureKey
from core.store import erasures, people, proof
from core.store.erasures import Erasure
from core.store.proof import Place

TEXTS = 500
UNSEARCHED = frozenset({"pg", "backups", "sources", ledger.LOG, KEY_FILE})
"""What the proof does not read in the home folder: the server's own files, dumps, clones, files of keyed hashes."""
_TEXT, _ID = b"T", b"I"


@dataclass(frozen=True, slots=True)
class Proof:
    """What a proof has read and found. `left`: what must not be there; `mentions`: in other people's words."""

    left: tuple[Place, ...]
    mentions: tuple[Place, ...]
    tables: int
    files: int
    bytes: int

    def digest(self, ledger_id: int) -> str:
        """Return a hash over what the proof has read and found."""
        told = [ledger_id, list(map(str, self.left)), len(self.mentions), self.tables, self.files, self.bytes]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()


async def collect(hand: Hand, what: Erasure, key: ErasureKey) -> None:
    """Keep the account and the person's own texts, sealed, to look for them when they are gone."""
    person_id = what.person_id
    if person_id is None:
        return
    await hand.do(partial(erasures.drop_needles, ledger_id=what.ledger_id))
    account = await hand.do(partial(people.account_of, person_id=person_id))
    await _keep(hand, what, key, [_ID + account.encode()])
    for load in (erasures.list_texts, erasures.list_questions):
        after = 0
        while texts := await hand.do(partial(load, person_id=person_id, after=after, shortest=TEXT_CHARS, limit=TEXTS)):
            after = texts[-1][0]
            await _keep(hand, what, key, [_TEXT + text.encode() for _, text in texts])


async def _keep(hand: Hand, what: Erasure, key: ErasureKey, plain: Sequence[bytes]) -> None:
    sealed = [key.seal(each) for each in plain]
    await hand.do(partial(erasures.add_needles, ledger_id=what.ledger_id, sealed=sealed))


async def prove(hand: Hand, what: Erasure, key: ErasureKey, home: Path) -> Proof:
    """Read every table and file through for what was collected."""
    needles = await _needles(hand, what, key)
    tables = await proof.search_database(hand.database, needles)
    files = await proof.search_files(home, needles, but_not=UNSEARCHED)
    places = tables.places + files.places
    return Proof(
        left=tuple(place for place in places if not place.others),
        mentions=tuple(place for place in places if place.others),
        tables=tables.tables,
        files=files.files,
        bytes=tables.bytes + files.bytes,
    )


async def _needles(hand: Hand, what: Erasure, key: ErasureKey) -> Needles:
    texts: set[bytes] = set()
    ids: list[bytes] = []
    after = 0
    while found := await hand.do(partial(erasures.list_needles, ledger_id=what.ledger_id, after=after, limit=TEXTS)):
        after = found[-1][0]
        for _, sealed in found:
            plain = key.unseal(sealed)
            if plain.startswith(_ID):
                ids.append(plain[1:])
            else:
                texts |= forms(plain[1:].decode())
    return Needles(sorted(texts), ids)
