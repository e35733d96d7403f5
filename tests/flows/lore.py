"""A handbook on disk, and a line whose community may be told what it says."""

import re
from pathlib import Path

from core.domain.ids import CommunityId, RoomId
from core.domain.prompt import ModelRequest
from core.domain.sources import SourceId, SourceKind, Visibility
from core.retrieval.git import Git
from core.retrieval.sources import Sources
from core.store import sources
from tests.fakes import ScriptedModel
from tests.flows.line import Line
from tests.flows.repositories import Checkout

GUIDE = """# Kiln

## Firing

The bisque programme ramps to 980 degrees in nine hours. Leave the vent open until 400 degrees.

## Glaze

Cobalt glaze dries for a day before it is fired.
"""
CODE = '''"""The kiln's controller."""


def ramp_minutes(start, end, rate):
    """Return how many minutes the kiln needs from `start` to `end` degrees; `rate` is degrees an hour."""
    return 60 * (end - start) / rate
'''
TALK = (
    ("Ana", "Who has the key of the garden shed? I want to fetch the ladder."),
    ("Ben", "The key of the garden shed hangs behind the door of the workshop."),
    ("Ana", "The summer party is on the second Saturday of July."),
    ("Ben", "I bring a plum cake to the summer party."),
    ("Cleo", "The kiln is too hot for the cat, she moved out."),
    ("Ana", "Degrees or no degrees, it is cold in here today."),
)


async def handbook(line: Line, folder: Path, *rooms: str, name: str = "handbook") -> SourceId:
    """Write, add and sync a repository that may be told in these rooms, or in all if none is named."""
    checkout = Checkout.new(folder / name)
    checkout.commit("first", docs__kiln_md=GUIDE, src__ramp_py=CODE)
    async with line.database.transaction() as tx:
        home = CommunityId(await tx.fetchval("select id from voidbot.communities order by id limit 1"))
        found = await tx.fetch("select id from voidbot.rooms where chat_ref = any($1::text[])", list(rooms))
        listed = frozenset(RoomId(row["id"]) for row in found)
        visibility = Visibility(frozenset({home}), listed if rooms else None)
        source_id = await sources.add_source(tx, SourceKind.GIT, name, str(checkout.folder), visibility)
    await sync(line, folder, source_id)
    return source_id


async def sync(line: Line, folder: Path, source_id: SourceId) -> None:
    """Bring what is stored of a source to what it holds now."""

    async def advance(work):  # type: ignore[no-untyped-def]  # the protocol's own generic
        async with line.database.transaction() as tx:
            return await work(tx)

    async with line.database.transaction() as tx:
        source = await sources.load_source(tx, source_id)
    assert source is not None
    await Sources(Git(), folder / "mirrors").sync(source, advance)


async def talked(line: Line) -> None:
    """Let people talk in an archived lobby."""
    await line.say("Root", "/void mode lurk archive:on")
    await line.quiet()
    for person, text in TALK:
        await line.say(person, text)


class Citing(ScriptedModel):
    """A model that cites what holds `wanted`, or says that it does not know."""

    def __init__(self, wanted: str) -> None:
        super().__init__(self._cite)
        self._wanted = wanted

    def _cite(self, request: ModelRequest) -> str:
        pieces = re.findall(r"<<data \w+ ([dk]\d+) [^\n]*>>\n(.*?)(?=\n<<)", request.messages[0].text, re.DOTALL)
        cites = [f"[{handle}]" for handle, text in pieces if self._wanted in text]
        return f"So it stands there {' '.join(cites)}." if cites else "I do not know."
