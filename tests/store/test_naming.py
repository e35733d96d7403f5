"""The operator's name for the bot, in every mind that exists."""

import asyncio

from core.domain.mind.bodies import Profile
from core.state.naming import name_minds
from core.store import journal, state
from core.store.engine import Database
from tests.fakes import ManualClock
from tests.store.minds import make_home, note


async def test_a_mind_bears_the_name_it_is_given_and_is_not_touched_again(
    database: Database, clock: ManualClock
) -> None:
    home = await make_home(database, clock)
    assert await name_minds(database, home.service, "Kira") == 0  # there is no mind yet
    await home.accept(note(home, "one", 0))
    assert await name_minds(database, home.service, "void") == 0  # what it is called unless it is told
    assert sum(await asyncio.gather(*(name_minds(database, home.service, "Ki\u0308ra\n") for _ in range(2)))) >= 1
    assert [await name_minds(database, home.service, name) for name in ("kïra", "", "VOID", "Void")] == [0, 0, 1, 0]
    async with database.transaction() as tx:
        (held,) = await state.list_live(tx, home.mind_id, ["profile"])
        rows = await journal.list_range(tx, home.mind_id, 0, 10)
    assert isinstance(held.entry.body, Profile) and held.entry.body.public_name == "VOID"
    assert [(row.op, row.verdict, row.actor.ref) for row in rows[1:]] == [
        ("configure_profile", "accepted", "settings")
    ] * 2
