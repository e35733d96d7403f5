"""Ways around the audience rule that somebody tried: counts, weights, names and old choices tell no more than words."""

import json
import zipfile
from datetime import timedelta
from pathlib import Path

from core.domain.audience import Private
from core.domain.ids import CommunityId, MessageId, PersonId, RoomId
from core.domain.platforms import RoleReport
from core.domain.profile import Anchor, Predicate, SaidBy
from core.domain.retrieval import Query
from core.privacy.export import NOT_READ_NOW
from core.retrieval import service
from core.retrieval.indexing import index_all
from core.store import access, facts
from core.store.engine import Database
from tests.flows.line import Line, running_line
from tests.flows.test_audience import ids, open_to
from tests.store.test_units import START, Town


async def test_what_is_said_in_a_closed_room_moves_nothing_that_is_found(database: Database) -> None:
    async with database.transaction() as tx:
        town = await Town.found(tx)
        for n in range(4):
            await town.say("Ana", f"the kettle and the lantern, number {n}")
        await town.say("Ana", "a copperfox sat there")
        await index_all(tx)
        await tx.execute("update voidbot.rooms set language = 'de' where id = $1", town.rooms[1])

        async def asked() -> list[tuple[str, float, float]]:
            found: list[tuple[str, float, float]] = []
            for text in ("copperfox lantern", "kettle copperfox marigold", "marigold lantern"):
                query = Query(
                    text=text, community_id=town.community, readable=frozenset({town.rooms[0]}),
                    now=START + timedelta(days=1), k=9,
                )  # fmt: skip
                hits = await service.search(tx, query)
                found += [(hit.message.platform_ref, hit.score, hit.scores.share) for hit in hits]
            return found

        before = await asked()
        for n in range(9):
            await town.say("Ben", f"copperfox, marigold and the laterne {n}", 1)
        assert await index_all(tx) == 9
        assert before and await asked() == before


async def reported(line: Line, text: str) -> int:
    """Take a fact about Wren from what somebody else said."""
    _, wren, _ = await ids(line, "wren", "lobby")
    async with line.database.transaction() as tx:
        row = await tx.fetchrow("select id, author_id, length(text) as n from voidbot.messages where text = $1", text)
        assert row is not None
        anchor = Anchor(MessageId(row["id"]), 0, 0, row["n"], PersonId(row["author_id"]))
        number = await facts.add(tx, wren, Predicate.WORKS_ON, text, SaidBy.REPORTED, [anchor])
    assert isinstance(number, int)
    return number


async def test_what_was_said_of_one_in_a_closed_room_is_not_told(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, sample=True) as line:
        await line.say("Wren", "/me")
        await line.say("Mara", "the canary audit", "staff")
        await line.say("Mara", "the open garden plan", "garden")
        await line.quiet()
        hidden = await reported(line, "the canary audit")
        await reported(line, "the open garden plan")
        commands = ("/me", f"/me-correct {hidden} the canary audit", "/me-correct 999 the canary audit", "/export-me")
        seen = len(line.front_end.shown)
        for text in commands:
            await line.say("Wren", text)
            await line.quiet()
        me, guess, nothing, _, ready = line.front_end.texts()[seen:]
        assert "the open garden plan" in me and "canary" not in me
        assert guess == nothing  # a guess is not confirmed
        with zipfile.ZipFile(Path(ready.splitlines()[-1])) as file:
            kept = [fact["value"] for fact in json.loads(file.read("data.json"))["facts"]]
        assert kept == ["the open garden plan"]


async def test_an_erasure_tells_of_no_room_that_one_may_not_read(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, sample=True) as line:
        await line.say("Tobi", "@void hello", "dm:tobi")
        await line.quiet()
        seen = len(line.front_end.shown)
        for room in ("staff", "dm:tobi", "nowhere", "garden"):
            await line.say("Wren", f"/forget-me rooms:{room}")
            await line.quiet()
        staff, direct, nowhere, garden = line.front_end.texts()[seen:]
        assert staff.replace("staff", "nowhere") == direct.replace("dm:tobi", "nowhere") == nowhere
        assert "plan:" in garden
        await line.say("Jonas", "my own words here", "staff")
        await open_to(line, "staff", "mara")
        await line.say("Jonas", "/forget-me rooms:staff")
        await line.quiet()
        assert "plan:" in line.front_end.texts()[-1]  # of one's own words one may always rid oneself


async def test_a_file_names_no_room_by_a_name_that_its_owner_never_saw(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, sample=True) as line:
        await line.say("Jonas", "my own words here", "staff")
        await open_to(line, "staff", "mara")
        await line.value("update voidbot.rooms set name = 'canary-plans' where chat_ref = 'staff' returning id")
        await line.say("Jonas", "/export-me")
        await line.quiet()
        with zipfile.ZipFile(Path(line.front_end.texts()[-1].splitlines()[-1])) as file:
            data, page = file.read("data.json").decode(), file.read("index.html").decode()
        assert "my own words here" in data and NOT_READ_NOW in data
        assert "canary" not in data + page


async def test_a_role_that_is_gone_opens_nothing(database: Database) -> None:
    async with database.transaction() as tx:
        town = await Town.found(tx)
        await town.say("Ana", "hello")
        ana, home = town.people["Ana"], town.community
        await access.learn_roles(tx, home, [RoleReport("r", "staff")], whole=True)
        roles = await access.find_roles(tx, home, ["r"])
        await tx.execute("insert into voidbot.membership_roles (person_id, role_id) values ($1, $2)", ana, roles["r"])
        await access.save_access(tx, town.rooms[1], home, everyone=False, roles=[roles["r"]])
        assert await readable(town, ana) == {town.rooms[1]}
        await access.learn_roles(tx, home, [], whole=True)
        assert await readable(town, ana) == set()


async def readable(town: Town, person: PersonId) -> set[RoomId]:
    home = CommunityId(town.community)
    return set(await access.list_readable(town.tx, home, Private(person), person))


async def test_who_opts_out_is_not_found_by_what_stands_around_either(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn) as line:
        await line.say("Root", "/void mode lurk archive:on")
        await line.quiet()
        for person, text in (("Ana", "first of all"), ("Ben", "the canaryword stands here"), ("Ana", "so it does")):
            await line.say(person, text)
        async with line.database.transaction() as tx:
            await index_all(tx)
        await line.say("Ben", "/privacy archive-me off")
        await line.quiet()
        async with line.database.transaction() as tx:
            await index_all(tx)
        await line.say("Ana", "/search canaryword")
        await line.say("Ana", "/search xylograph")
        await line.quiet()
        found, nothing = line.front_end.texts()[-2:]
        assert found == nothing
