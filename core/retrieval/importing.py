"""Histories brought along: a file's records into the archive, batch by batch, killed anywhere and taken up again.

One batch is one transaction with the place in the file up to which it reaches. The next batch is read meanwhile.
"""

import asyncio
import itertools
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from core.domain.errors import Conflict, InputRejected, Unavailable
from core.domain.ids import RoomId
from core.domain.imports import (
    Account,
    BadCode,
    BadRecord,
    ImportFormat,
    ImportRecord,
    Moved,
    Place,
    Progress,
    SkipReason,
    Tally,
)
from core.retrieval.admission import Plan, Wish, admit, file_name, make_rooms
from core.retrieval.survey import Batch, Survey, recognise, survey, take
from core.store import audit, import_people, imports
from core.store.engine import Database, Tx
from core.store.import_people import DatedName, Person, Stay
from core.store.imports import Known, Run, Staged

BATCH, LIVE_BATCH = 5_000, 1_000
"""Records a transaction. Where people talk meanwhile it is short: they wait for the room's row."""
_RECENT = 50_000
"""Ids that are remembered to tell a repeat within the file from a file that was read before."""
_TRIES, _PAUSE_S = 20, 0.5
_FIRST_BAD = 10

ErasedUntil = Callable[[str, str], datetime | None]
"""Up to when what an account said is erased, by platform and the platform's id; None: it is not."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one file's import. `first_bad`: the first places that gave no record. `rooms` by number and topic."""

    path: Path
    form: ImportFormat
    tally: Tally
    digest: str
    rooms: Mapping[str, int]
    first_bad: tuple[BadRecord, ...]
    resumed: bool


class _Undo(Exception):
    """Ends a transaction that was made to see what it would do."""


def never_erased(_platform: str, _account: str) -> datetime | None:
    """Return None: nobody is erased."""
    return None


class Importer:
    """Brings files in. `erased_until` keeps out what was erased; `batch` stands for the usual lengths."""

    def __init__(
        self, database: Database, *, erased_until: ErasedUntil = never_erased, batch: int | None = None
    ) -> None:
        self._database = database
        self._erased_until = erased_until
        self._batch = batch

    async def plan(self, path: Path, form: ImportFormat | None, zone: ZoneInfo | None, wish: Wish) -> Plan:
        """Look through a file and decide where it goes; nothing is written.

        Raises:
            InputRejected: It cannot be read, or may not be brought in like this.
        """
        try:
            found = await asyncio.to_thread(_look, path, form, zone)
        except OSError as exc:
            raise InputRejected(f"{path.name}: cannot be read: {exc.strerror}") from exc
        if found is None:
            raise InputRejected(
                f"{path.name}: is neither JSON of DiscordChatExporter or Telegram Desktop nor JSON lines"
            )
        async with self._database.transaction(durable=False) as tx:
            return await admit(tx, found, wish)

    async def load(
        self,
        plan: Plan,
        zone: ZoneInfo | None,
        *,
        actor: str,
        dry_run: bool = False,
        report: Callable[[Progress], None] = lambda _: None,
    ) -> Outcome:
        """Bring a planned file in, or only count what would be written."""
        loading = _Loading(self._database, self._erased_until, plan, actor, dry_run, self._batch)
        await loading.prepare()
        return await loading.run(zone, report)


def _look(path: Path, form: ImportFormat | None, zone: ZoneInfo | None) -> Survey | None:
    with path.open("rb") as file:
        form = form or recognise(file)
    return None if form is None else survey(path, form, zone)


class _Loading:
    """One file on its way in."""

    def __init__(
        self, database: Database, erased: ErasedUntil, plan: Plan, actor: str, dry_run: bool, batch: int | None
    ) -> None:
        self._database = database
        self._erased_until = erased
        self._plan = plan
        self._actor = actor
        self._dry = dry_run
        live = any(target.live for target in plan.targets.values())
        self._length = batch or (LIVE_BATCH if live else BATCH)
        self._run: Run | None = None
        self._resumed = False
        self._tally = Tally()
        self._first_bad: list[BadRecord] = []
        self._recent: OrderedDict[tuple[int, str], datetime | None] = OrderedDict()
        self._named: dict[int, str] = {}
        self._platform = "import" if plan.survey.form is ImportFormat.JSONL else plan.survey.form.value

    async def prepare(self) -> None:
        """Make the rooms and the run, or take up the one that was interrupted."""
        plan = self._plan
        if plan.wish.resume and plan.run is not None and plan.run.state == imports.RUNNING and not self._dry:
            self._run, self._resumed = plan.run, True
            self._tally = Tally.load(plan.run.counts)
            return
        async with self._undone_if_dry() as tx:
            self._run = await self._open(tx)

    async def _open(self, tx: Tx) -> Run:
        plan = self._plan
        rooms = await make_rooms(tx, plan)
        audience = str(plan.wish.audience) if plan.wish.audience is not None else ""
        details = {"file": file_name(plan.survey.path), "sha256": plan.survey.sha256, "audience": audience,
                   "by": self._actor, "rooms": sorted(rooms.values())}  # fmt: skip
        await audit.add(tx, None, "import", f"community {plan.community.id}", details)
        return await imports.open_run(
            tx,
            plan.community.id,
            sha256=plan.survey.sha256,
            file_name=file_name(plan.survey.path),
            form=plan.survey.form,
            audience=audience,
            rooms=rooms,
            actor=self._actor,
        )

    @asynccontextmanager
    async def _undone_if_dry(self, *, durable: bool = True) -> AsyncIterator[Tx]:
        try:
            async with self._database.transaction(durable=durable, long=True) as tx:
                yield tx
                if self._dry:
                    raise _Undo
        except _Undo:
            pass

    async def run(self, zone: ZoneInfo | None, report: Callable[[Progress], None]) -> Outcome:
        """Read to the end."""
        run = self._known_run()
        size = self._plan.survey.size_bytes
        loop = asyncio.get_running_loop()
        with self._plan.survey.path.open("rb") as file, ThreadPoolExecutor(1, "import-reader") as thread:
            reader = self._plan.survey.read(file, zone, run.place if self._resumed else Place())
            walk = iter(reader)
            ahead = loop.run_in_executor(thread, take, walk, reader, self._length)
            while True:
                batch = await ahead
                if not batch.last:
                    ahead = loop.run_in_executor(thread, take, walk, reader, self._length)
                place = replace(batch.place, byte=size) if batch.last else batch.place
                await self._write_patiently(replace(batch, place=place))
                report(Progress(place.byte, size, self._tally.read, self._tally.written))
                if batch.last:
                    break
        digest = await self._end(run)
        return Outcome(
            self._plan.survey.path,
            self._plan.survey.form,
            self._tally,
            digest,
            dict(run.rooms),
            tuple(self._first_bad),
            self._resumed,
        )

    def _known_run(self) -> Run:
        if self._run is None:
            raise AssertionError("an import that has not begun")
        return self._run

    async def _write_patiently(self, batch: Batch) -> None:
        """Write a batch; where others hold a row too long, or the server is away for a moment, once more."""
        for tries_left in range(_TRIES - 1, -1, -1):
            before = replace(self._tally, skipped=Counter(self._tally.skipped), bad=Counter(self._tally.bad))
            recent, named, first = self._recent.copy(), dict(self._named), list(self._first_bad)
            try:
                async with self._undone_if_dry(durable=False) as tx:
                    await self._write(tx, batch)
                return
            except (Conflict, Unavailable):
                self._tally, self._recent, self._named, self._first_bad = before, recent, named, first
                if not tries_left:
                    raise
                await asyncio.sleep(_PAUSE_S)

    async def _write(self, tx: Tx, batch: Batch) -> None:
        run = await self._open(tx) if self._dry else self._known_run()
        bad = list(batch.bad)
        for record in batch.records:
            bad += [BadRecord(record.line, record.byte, code, mended=True) for code in record.mended]
        self._tally.read += len(batch.records) + batch.unsupported
        self._tally.skipped.update({SkipReason.UNSUPPORTED.value: batch.unsupported} if batch.unsupported else {})
        kept = self._without_repeats(self._without_erased(batch.records, run), bad)
        people = await import_people.meet(tx, self._platform, _accounts(kept))
        rows = self._rows(kept, run, people)
        if rows:
            await self._name(tx, rows)
            await self._add(tx, run, rows, bad)
        await imports.add_errors(tx, run.id, bad)
        self._tally.bad.update(each.code.value for each in bad)
        self._first_bad += [each for each in bad if not each.mended][: _FIRST_BAD - len(self._first_bad)]
        await imports.save_progress(tx, run.id, batch.place, self._tally.stored())

    def _without_erased(self, records: Sequence[ImportRecord], run: Run) -> list[ImportRecord]:
        kept: list[ImportRecord] = []
        until: dict[str, datetime | None] = {}
        for record in records:
            if str(record.chat) not in run.rooms:
                self._tally.skipped[SkipReason.EXCLUDED.value] += 1
                continue
            if record.author is not None:
                ref = record.author.ref
                if ref not in until:
                    until[ref] = self._erased_until(self._platform, ref)
                erased = until[ref]
                if erased is not None and record.sent_at <= erased:
                    self._tally.skipped[SkipReason.ERASED.value] += 1
                    continue
            kept.append(record)
        return kept

    def _without_repeats(self, records: Sequence[ImportRecord], bad: list[BadRecord]) -> list[ImportRecord]:
        """Keep the first record of an id, or a later one that is an edit."""
        kept: dict[tuple[int, str], ImportRecord] = {}
        for record in records:
            key = (record.chat, record.ref)
            if key in self._recent and not _newer(record.edited_at, self._recent[key]):
                bad.append(BadRecord(record.line, record.byte, BadCode.DUPLICATE_ID))
                continue
            if key in self._recent and key not in kept and self._dry:
                self._tally.edited += 1  # what it edits was not left there to be found
                continue
            self._recent[key] = record.edited_at
            kept[key] = record
        while len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        return list(kept.values())

    def _rows(self, records: Sequence[ImportRecord], run: Run, people: Mapping[str, Person]) -> list[Staged]:
        rows: list[Staged] = []
        for record in records:
            person = None if record.author is None else people[record.author.ref]
            if person is not None and person.opted_out:
                self._tally.skipped[SkipReason.OPTED_OUT.value] += 1
                continue
            twin = self._plan.targets[record.chat].twin
            rows.append(Staged(record, RoomId(_room(record, run)), None if person is None else person.id, twin))
        return rows

    async def _name(self, tx: Tx, rows: Sequence[Staged]) -> None:
        """Date the names that are new; of several in one batch, one after the other."""
        found: dict[int, list[DatedName]] = {}
        for row in sorted(rows, key=lambda each: each.record.sent_at):
            if row.author_id is None or row.record.author is None:
                continue
            name = row.record.author.name
            if self._named.get(row.author_id) != name:
                self._named[row.author_id] = name
                found.setdefault(row.author_id, []).append(DatedName(row.author_id, name, row.record.sent_at))
        for names in itertools.zip_longest(*(found[person] for person in sorted(found))):
            await import_people.date_names(tx, [name for name in names if name is not None])

    async def _add(self, tx: Tx, run: Run, rows: Sequence[Staged], bad: list[BadRecord]) -> None:
        await imports.stage(tx, rows)
        twins = any(row.twin_id is not None for row in rows)
        merged = await imports.add_staged(tx, run, [row.room_id for row in rows], twins=twins)
        self._tally.written += merged.added
        if merged.merged:
            self._tally.skipped[SkipReason.MERGED.value] += len(merged.merged)
        for known in merged.known:
            self._count(known, rows[known.number].record, bad)

    def _count(self, known: Known, record: ImportRecord, bad: list[BadRecord]) -> None:
        if known.gone:
            self._tally.skipped[SkipReason.TOMBSTONE.value] += 1
        elif known.live:
            self._tally.skipped[SkipReason.LIVE.value] += 1
        elif known.newer:
            self._tally.edited += 1
        elif known.twice and not self._dry:
            bad.append(BadRecord(record.line, record.byte, BadCode.DUPLICATE_ID))
        else:
            self._tally.unchanged += 1

    async def _end(self, run: Run) -> str:
        """Join answers to what they answer, note who came and went, and say what stands there now."""
        if self._dry:
            return ""
        rooms = [RoomId(room) for room in sorted(set(run.rooms.values()))]
        async with self._database.transaction(long=True) as tx:
            await imports.link_replies(tx, run.id, rooms)
            await self._note_stays(tx)
            digest = await imports.digest(tx, rooms)
            await imports.end_run(tx, run.id, self._tally.stored(), digest)
        return digest

    async def _note_stays(self, tx: Tx) -> None:
        chats = self._plan.survey.chats
        own = [
            move for move in self._plan.survey.moves if chats[move.chat].community_ref == self._plan.community.chat_ref
        ]
        own = [
            move
            for move in own
            if (until := self._erased_until(self._platform, move.account.ref)) is None or until < move.at
        ]
        people = await import_people.meet(tx, self._platform, [move.account for move in own])
        await import_people.note_stays(tx, self._plan.community.id, _stays(own, people))


def _room(record: ImportRecord, run: Run) -> int:
    topic = run.rooms.get(f"{record.chat}/{record.topic}") if record.topic else None
    return topic if topic is not None else run.rooms[str(record.chat)]


def _newer(edited_at: datetime | None, than: datetime | None) -> bool:
    return edited_at is not None and (than is None or edited_at > than)


def _accounts(records: Sequence[ImportRecord]) -> list[Account]:
    return list({record.author.ref: record.author for record in records if record.author is not None}.values())


def _stays(moves: Sequence[Moved], people: Mapping[str, Person]) -> list[Stay]:
    """Return what the moves of each person amount to, in order of time; opted-out ones are left out."""
    since: dict[str, datetime] = {}
    stays: list[Stay] = []
    for move in sorted(moves, key=lambda each: each.at):
        ref = move.account.ref
        if people[ref].opted_out:
            continue
        if move.joined:
            since.setdefault(ref, move.at)
        else:
            stays.append(Stay(people[ref].id, since.pop(ref, move.at), move.at))
    stays += [Stay(people[ref].id, joined, None) for ref, joined in since.items()]
    return stays
