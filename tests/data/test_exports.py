"""Export files of others: every count that is expected of them, and each of them twice."""

from pathlib import Path

from benchmarks.export_counts import ZONE, differences, export_files
from core.domain.imports import AudienceKind, AudienceSpec, ImportFormat
from core.retrieval.admission import Wish
from core.retrieval.importing import Importer, Outcome
from core.retrieval.survey import recognise, survey
from core.store import places
from core.store.engine import Database


def test_every_export_gives_the_expected_counts(folder: Path) -> None:
    found = {file.name: differences(file, expected) for file, expected in export_files(folder / "exports")}
    assert found and {name: wrong for name, wrong in found.items() if wrong} == {}


async def bring(database: Database, path: Path, room: str) -> Outcome:
    with path.open("rb") as file:
        form = recognise(file)
    assert form is not None
    someone = min(next(iter(survey(path, form, ZONE).people.values())))
    async with database.transaction() as tx:
        community = await places.add_community(tx, "exports", "exports", "Exports")
    wish = Wish(community_id=community, room=room, audience=AudienceSpec(AudienceKind.PEOPLE, (someone,)))
    importer = Importer(database)
    return await importer.load(await importer.plan(path, form, ZONE, wish), ZONE, actor="test")


async def test_every_export_is_stored_once_however_often_it_comes(folder: Path, database: Database) -> None:
    for number, (path, expected) in enumerate(export_files(folder / "exports")):
        first, again = [await bring(database, path, f"room{number}") for _ in range(2)]
        total = expected["total"]
        async with database.transaction(durable=False) as tx:
            stored = await tx.fetchrow(
                "select count(*) as entries, count(*) filter (where kind <> 'system') as messages,"
                " count(distinct author_id) filter (where kind <> 'system') as authors,"
                " (select count(*) from voidbot.attachments a join voidbot.messages f on f.id = a.message_id"
                "  where f.room_id = any($1) and (a.kind <> 'sticker' or $2)) as files,"
                " count(reply_to_id) as answers from voidbot.messages where room_id = any($1)",
                sorted(set(first.rooms.values())),
                first.form is ImportFormat.TELEGRAM,
            )
        assert stored is not None
        repeats = total["entries"] - total["distinct_ids"] - total["without_id"]
        assert stored["entries"] == total["entries"] - repeats - total["unsupported"], path.name
        assert stored["messages"] == total["messages"] - repeats, path.name
        assert (stored["authors"], stored["files"]) == (total["authors"], total["attachments"]), path.name
        assert stored["answers"] == total["to_message"] + total["to_service"], path.name
        assert (again.tally.written, again.digest) == (0, first.digest), path.name
