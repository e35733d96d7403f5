"""What is kept, for how long, and what becomes of questions that nobody answered."""

from core.domain.ids import JobId, OutboxId
from core.domain.jobs import Cancelled
from core.store import basis, inbox, jobs, shown
from core.store.engine import Database
from tests.fakes import ManualClock, ScriptedModel
from tests.flows.line import running_line

DAY_S = 24 * 3600.0


async def test_a_refused_question_is_emptied_after_a_day(
    fresh_dsn: str, database: Database, clock: ManualClock
) -> None:
    async with running_line(fresh_dsn, clock=clock, works=False) as line:
        await line.say("Ana", "@void anyone?")
        async with database.transaction() as tx:
            await tx.execute("update voidbot.rooms set mode = 'silent'")
        await line.say("Ana", "@void my secret plan")
        await clock.advance(DAY_S + 60)
        async with database.transaction() as tx:
            await inbox.blank_old(tx)
        assert await line.value("select text from voidbot.inbox order by id desc limit 1") == ""


async def test_what_a_terminal_was_shown_is_emptied_after_a_day(
    fresh_dsn: str, database: Database, clock: ManualClock
) -> None:
    async with running_line(fresh_dsn, clock=clock, works=False) as line:
        await line.say("Ana", "@void anyone?")
        async with database.transaction() as tx:
            room = await tx.fetchval("select id from voidbot.rooms")
            await tx.execute(
                "insert into voidbot.console_messages (room_id, nonce, text) values ($1, 'n1', 'told')", room
            )
        await clock.advance(DAY_S + 60)
        async with database.transaction() as tx:
            assert await shown.blank_old(tx) == 1


async def test_a_turn_whose_job_was_cancelled_does_not_stay_open(
    fresh_dsn: str, database: Database, clock: ManualClock
) -> None:
    async with running_line(fresh_dsn, clock=clock, works=False) as line:
        await line.say("Ana", "@void anyone?")
        job = JobId(int(str(await line.value("select job_id from voidbot.turns"))))
        assert await jobs.cancel(database, job) is Cancelled.CANCELLED
        await clock.advance(700)
        async with database.transaction() as tx:
            assert await inbox.end_abandoned(tx) == 1
        assert await line.value("select reason from voidbot.turns") == "superseded"


async def test_a_turn_that_waits_for_its_job_is_not_abandoned(
    fresh_dsn: str, database: Database, clock: ManualClock
) -> None:
    async with running_line(fresh_dsn, clock=clock, works=False) as line:
        await line.say("Ana", "@void anyone?")
        await clock.advance(700)
        async with database.transaction() as tx:
            assert await inbox.end_abandoned(tx) == 0


async def test_a_question_of_this_morning_is_not_answered_at_night(
    fresh_dsn: str, database: Database, clock: ManualClock
) -> None:
    model = ScriptedModel()
    async with running_line(fresh_dsn, model=model, clock=clock, works=False) as line:
        await line.say("Ana", "@void anyone?")
    await clock.advance(7 * 3600)
    async with running_line(fresh_dsn, model=model, clock=clock) as line:
        await line.quiet()
        assert await line.value("select reason from voidbot.turns") == "too_old"
        assert model.requests == []


async def test_the_rest_of_a_question_need_not_name_the_bot_again(fresh_dsn: str) -> None:
    model = ScriptedModel(lambda _: "At ten.")
    async with running_line(fresh_dsn, model=model) as line:
        # Near the platform's limit, where the client has probably cut it: the longer window.
        await line.say("Ana", "@void when does the door " + "really " * 270, quiet_window=True)
        joined = await line.say("Ana", "open on saturday?", quiet_window=True)
        await line.answers(1)
        assert joined.outcome == "reply"
        assert "open on saturday?" in model.requests[0].messages[0].text and len(model.requests) == 1


async def test_somebody_else_never_joins_a_question(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, model=ScriptedModel(lambda _: "At ten.")) as line:
        await line.say("Ana", "@void when does the door open?", quiet_window=True)
        other = await line.say("Ben", "I wonder too", quiet_window=True)
        await line.answers(1)
        assert other.outcome == "no_speech"


async def test_a_deleted_source_is_noticed_before_the_answer_leaves(fresh_dsn: str, database: Database) -> None:
    async with running_line(fresh_dsn, works=False) as line:
        await line.say("Ana", "@void anyone?")
        async with database.transaction() as tx:
            turn = await tx.fetchrow("select room_id, person_id, community_id from voidbot.turns")
            assert turn is not None
            room, person, community = turn["room_id"], turn["person_id"], turn["community_id"]
            message = await tx.fetchval(
                "insert into voidbot.messages (community_id, room_id, author_id, platform_ref, archived_seq, text)"
                " values ($1, $2, $3, 'x', 1, 'the key is blue') returning id",
                community,
                room,
                person,
            )
            answer = OutboxId(
                await tx.fetchval(
                    "insert into voidbot.outbox (front_end, community_id, room_id, kind, audience, dedupe)"
                    " values ('console', $1, $2, 'reply', array[$2::bigint], 'x') returning id",
                    community,
                    room,
                )
            )
            await tx.execute("insert into voidbot.receipts (outbox_id, room_id) values ($1, $2)", answer, room)
            await tx.execute(
                "insert into voidbot.receipt_sources (outbox_id, n, kind, ref, audience)"
                " values ($1, 0, 'message', $2, array[$3::bigint])",
                answer,
                str(message),
                room,
            )
            assert await basis.look_at_basis(tx, answer) == (False, [])
            await tx.execute("update voidbot.messages set deleted_at = voidbot.now() where id = $1", message)
            assert await basis.look_at_basis(tx, answer) == (True, [])
