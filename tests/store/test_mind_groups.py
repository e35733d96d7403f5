"""What of a mind belongs to which group of rooms, and to which community: who may hear of it, and who pays."""

import pytest

from core.domain.audience import community_of
from core.domain.ids import CommunityId, RoomKey
from core.domain.passes import WHOLE_MIND, PassName
from core.domain.rooms import RoomKind
from core.passes.heaps import load_heaps
from core.passes.runner import start
from core.store import access, mind_lists, passes, places
from core.store.engine import Database
from core.store.mind_facts import AudienceGroups
from core.store.passes import NewRun
from tests.fakes import ManualClock
from tests.store.minds import Home, make_home, note


@pytest.fixture
async def home(database: Database, clock: ManualClock) -> Home:
    return await make_home(database, clock)


async def test_what_was_made_of_two_groups_is_that_one_s_whose_readers_may_read_both(home: Home) -> None:
    await home.accept(
        note(home, "of-one", 0),
        note(home, "of-both", 1, summary="Of keys.", claim="The key hangs by the door.", topics=["keys"]),
    )
    async with home.database.transaction() as tx:
        await tx.execute(
            "update voidbot.state_entries set sources = $1 where entry_id = 'of-both'", [home.room, home.closed]
        )
    audience = AudienceGroups()
    async with home.database.transaction(durable=False) as tx:
        named = await audience.load(tx, home.mind_id)
        held, heaped = {}, {}
        for room in (home.room, home.closed):
            beside = await audience.list_readable(tx, home.mind_id, [room])
            own = await mind_lists.list_own(tx, home.mind_id, ["short_term"], [room], beside=beside)
            held[room] = {entry.id for entry in own["short_term"]}
            heaps = await load_heaps(tx, home.mind_id, audience, named[room])
            heaped[room] = {entry.id for heap in heaps for entry in heap.notes}
    # Ana, who reads the closed room, may read the open one; not everybody who reads the open one may read both.
    assert held == heaped == {home.room: {"of-one"}, home.closed: {"of-both"}}


async def test_a_group_is_its_own_community_s_to_pay_for(home: Home) -> None:
    async with home.database.transaction() as tx:
        other = await places.add_community(tx, "console", "other", "There", timezone="Asia/Tokyo")
        await tx.execute("update voidbot.communities set mind_id = $1 where id = $2", home.mind_id, other)
        room = await places.add_room(tx, other, RoomKey("console", "there"), RoomKind.TERMINAL, "there")
        await access.save_access(tx, room, other, everyone=True)
        group = (await AudienceGroups().load(tx, home.mind_id))[room]
        assert community_of(group) == other and community_of(WHOLE_MIND) is None
        place, whole = await passes.find_place(tx, home.mind_id, group), await passes.find_place(tx, home.mind_id)
        assert place is not None and whole is not None
        assert (place.home, place.zone) == (other, "Asia/Tokyo") and whole.home == home.community
        slot = home.clock.now()
        named = {PassName.RUMINATION: group, PassName.MOOD: WHOLE_MIND}
        wanted = [
            NewRun(mind_id=home.mind_id, name=name, group=of, slot_key=f"{name}:{of}", slot=slot, label="x")
            for name, of in named.items()
        ]
        await start(tx, await passes.claim(tx, wanted), {home.mind_id: home.community})
        paid = await tx.fetch("select distinct community_id from queue.job order by 1")
    assert [CommunityId(row["community_id"]) for row in paid] == [home.community, other]
