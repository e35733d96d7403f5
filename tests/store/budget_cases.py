"""Places, draws and costs that the tests of budgets share."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from core.domain.budgets import CallResult, Draw, Reservation, Scope, Unit, UsageRow, Window
from core.domain.errors import BudgetRefused
from core.store import budgets
from core.store.engine import Database
from core.store.purses import balances
from tests.fakes import ManualClock


@dataclass(frozen=True, slots=True)
class World:
    """A community with two rooms and some people, as ids, and the defaults with two dollars a day."""

    database: Database
    clock: ManualClock
    community_id: int
    room_ids: tuple[int, ...]
    person_ids: tuple[int, ...]

    def draw(self, person: int = 0, room: int = 0, *, tokens: int = 100, usd_micro: int = 1000) -> Draw:
        return Draw(
            person_id=self.person_ids[person],
            room_id=self.room_ids[room],
            community_id=self.community_id,
            tokens=tokens,
            usd_micro=usd_micro,
            answers=1,
        )

    def unattended(self, pass_class: str, *, usd_micro: int = 1000) -> Draw:
        return replace(self.draw(usd_micro=usd_micro), person_id=None, room_id=None, pass_class=pass_class, answers=0)

    def cost(
        self, job_id: int = 1, *, result: CallResult = CallResult.OK, tokens: int = 60, usd_micro: int = 600
    ) -> UsageRow:
        return UsageRow(
            job_id=job_id,
            attempt=1,
            purpose="reply",
            model="small",
            provider="test",
            tier="fast",
            input_tokens=tokens // 2,
            output_tokens=tokens - tokens // 2,
            usd_micro=usd_micro,
            priced=True,
            result=result,
            answers=1,
            person_id=self.person_ids[0],
            room_id=self.room_ids[0],
            community_id=self.community_id,
        )

    async def limit(
        self, scope: Scope, scope_id: object, unit: Unit, limit: int | None, window: Window = Window.DAY
    ) -> None:
        async with self.database.transaction() as tx:
            await budgets.set_purse(tx, scope, str(scope_id), unit, window, limit, "test")

    async def reserve(self, draw: Draw, job_id: int = 1, *, timeout_s: float = 90) -> Reservation:
        async with self.database.transaction() as tx:
            return await budgets.reserve(tx, draw, job_id=job_id, attempt=1, timeout_s=timeout_s, now=self.clock.now())

    async def refusal(self, draw: Draw) -> BudgetRefused | None:
        try:
            await self.reserve(draw)
        except BudgetRefused as refused:
            return refused
        return None

    async def settle(self, reservation_id: int, usage: UsageRow) -> budgets.Settled:
        async with self.database.transaction() as tx:
            return await budgets.settle_usage(tx, reservation_id, usage)

    async def answer(self, draw: Draw) -> None:
        """Reserve and settle one answer."""
        reservation = await self.reserve(draw)
        usage = replace(self.cost(), person_id=draw.person_id, room_id=draw.room_id, pass_class=draw.pass_class)
        await self.settle(reservation.id, usage)

    async def state(self, scope: str, unit: Unit, draw: Draw | None = None) -> tuple[int, int]:
        """Return what is held and spent of one purse."""
        async with self.database.transaction() as tx:
            found = await balances(tx, draw or self.draw(), self.clock.now())
        (mine,) = [b for b in found if (b.want.name, b.want.purse.unit) == (scope, unit)]
        return mine.held, mine.spent

    async def wrong(self) -> list[str]:
        async with self.database.transaction() as tx:
            return await budgets.invariants(tx)


async def new_world(database: Database, clock: ManualClock, *, people: int = 5, timezone: str = "UTC") -> World:
    """Return a world on a noon in the middle of a month, so that no window ends during a test by itself."""
    year = clock.now().year + 1
    await clock.advance((datetime(year, 3, 10, 12, tzinfo=UTC) - clock.now()).total_seconds())
    async with database.transaction() as tx:
        community_id = await tx.fetchval(
            "insert into voidbot.communities (platform, chat_ref, mind_id, timezone) values ('test', '1', 'm', $1) "
            "returning id",
            timezone,
        )
        rooms = await tx.fetch(
            "insert into voidbot.rooms (community_id, platform, chat_ref, kind) select $1, 'test', n::text, 'channel' "
            "from generate_series(1, 2) n returning id",
            community_id,
        )
        persons = await tx.fetch(
            "insert into voidbot.people (platform, account_ref) select 'test', n::text "
            "from generate_series(1, $1::int) n returning id",
            people,
        )
        await budgets.ensure_defaults(tx, deployment_usd_per_day=2)
    return World(database, clock, community_id, tuple(row["id"] for row in rooms), tuple(row["id"] for row in persons))
