"""What people see, link and take along of themselves: two-sided consent, quotes under the audience rule, one file."""

import json
import re
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.domain.ids import MessageId, PersonId
from core.domain.jobs import NewJob
from core.domain.profile import Anchor, Predicate, SaidBy
from core.store import exports, facts, jobs
from tests.fakes import Shown
from tests.flows.line import HOME, Line, running_line, until
from tests.flows.test_commands import free, tell


@pytest.fixture
async def line(fresh_dsn: str) -> AsyncIterator[Line]:
    async with running_line(fresh_dsn) as running:
        await free(running, "console", "ana", "nan", "root")
        await tell(running, "Root", "/void mode lurk archive:on")
        yield running


def code_of(shown: Shown) -> str:
    found = re.search(r"code:(\w{8})", shown.text)
    assert found is not None, shown.text
    return found[1]


async def links(line: Line) -> object:
    return await line.value("select count(*) from voidbot.person_links where ended_at is null")


@pytest.mark.field("F046")
async def test_only_consent_from_both_sides_links_two_accounts(line: Line) -> None:
    offered = code_of(await tell(line, "Ana", "/link"))
    assert "from your other account" in (await tell(line, "Ana", f"/link code:{offered}")).text
    assert await line.value("select count(*) from voidbot.link_codes where code_hash = $1", offered) == 0
    before = len(line.front_end.shown)
    await line.say("Nan", f"/link code:{offered.lower()}")
    await line.answers(before + 2)
    said = {each.part.private_to: each for each in list(line.front_end.shown.values())[before:]}
    assert "has entered your code" in said["ana"].text
    assert await links(line) == 0
    confirming = code_of(said["nan"])
    assert "from the account that began" in (await tell(line, "Nan", f"/link code:{confirming}")).text
    assert "there is none like it" in (await tell(line, "Nan", f"/link code:{offered}")).text  # used up
    before = len(line.front_end.shown)
    await line.say("Ana", f"/link code:{confirming}")
    await line.answers(before + 2)
    told = {each.part.private_to for each in list(line.front_end.shown.values())[before:]}
    assert told == {"ana", "nan"} and await links(line) == 1
    assert "console:nan" in (await tell(line, "Ana", "/me")).text
    before = len(line.front_end.shown)
    await line.say("Nan", "/unlink")
    await line.answers(before + 2)
    assert await links(line) == 0


async def test_codes_cannot_be_guessed(line: Line) -> None:
    await tell(line, "Ana", "/link")
    for guess in ("AAAAAAAA", "BBBBBBBB", "CCCCCCCC", "DDDDDDDD", "EEEEEEEE"):
        assert "there is none like it" in (await tell(line, "Nan", f"/link code:{guess}")).text
    assert "five were tried" in (await tell(line, "Nan", "/link code:FFFFFFFF")).text


async def learn(line: Line, text: str, predicate: Predicate, value: str) -> None:
    """Take a fact from the newest message with this text."""
    async with line.database.transaction() as tx:
        row = await tx.fetchrow("select id, author_id from voidbot.messages where text = $1", text)
        assert row is not None
        anchor = Anchor(MessageId(row["id"]), 0, 0, len(text), PersonId(row["author_id"]))
        await facts.add(tx, PersonId(row["author_id"]), predicate, value, SaidBy.SELF, [anchor])


async def test_me_shows_facts_with_their_words_and_corrections_hold(line: Line) -> None:
    await line.say("Ana", "I use a very old loom")
    await learn(line, "I use a very old loom", Predicate.USES, "an old loom")
    shown = await tell(line, "Ana", "/me")
    assert "uses: an old loom (you said so" in shown.text and "> I use a very old loom — #lobby" in shown.text
    assert "#lobby: 1 messages" in shown.text and "learn-me: on" in shown.text and shown.part.private_to == "ana"
    assert "loom" not in (await tell(line, "Nan", "/me")).text
    async with line.database.transaction() as tx:  # the room is closed to Ana now
        await tx.execute("update voidbot.room_access set everyone_view = false, everyone_history = false")
        await tx.execute("update voidbot.communities set access_epoch = access_epoch + 1")
    closed = await tell(line, "Ana", "/me", "dm:ana")
    assert "very old loom" not in closed.text and "in rooms that you cannot read now" in closed.text
    assert "Noted" in (await tell(line, "Ana", "/me-correct uses a new loom", "dm:ana")).text
    corrected = (await tell(line, "Ana", "/me", "dm:ana")).text
    assert "uses: a new loom (you set it by command" in corrected and "old loom" not in corrected
    await learn(line, "I use a very old loom", Predicate.USES, "an old loom")
    assert "old loom" not in (await tell(line, "Ana", "/me", "dm:ana")).text
    assert "Removed" in (await tell(line, "Ana", "/me-correct uses", "dm:ana")).text
    assert "sorts are goes_by" in (await tell(line, "Ana", "/me-correct mood gloomy", "dm:ana")).text


async def test_the_file_holds_ones_own_words_and_of_others_one_line(line: Line) -> None:
    await line.say("Nan", "who wants <b>tea</b>?\nthe second line is nobody's business")
    await line.say("Ana", 'me, with "milk" & <script>alert(1)</script>', reply_to="m2")
    await line.say("Nan", "unrelated talk of Nan's")
    before = len(line.front_end.shown)
    await line.say("Ana", "/export-me")
    shown = (await line.answers(before + 2))[-1]
    file = Path(shown.splitlines()[-1])
    assert file.parent == HOME / exports.FOLDER and file.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(file) as archive:
        data = json.loads(archive.read("data.json"))
        page = archive.read("index.html").decode()
    (message,) = data["messages"]
    assert data["schema"] == 1 and data["accounts"] == ["console:ana"] and data["answers"]
    assert message["text"].startswith("me, with") and message["in_reply_to"] == "who wants <b>tea</b>?"
    both = page + json.dumps(data)
    assert "second line" not in both and "unrelated" not in both
    assert "<script" not in page and "&lt;script&gt;" in page and "<b>tea" not in page and "src=" not in page
    async with line.database.transaction() as tx:
        await tx.execute("update voidbot.exports set expires_at = voidbot.now() - interval '1 second'")
        await jobs.enqueue(tx, [NewJob(kind="upkeep", lane="upkeep", pool="upkeep", payload={"v": 1})])
    await until(lambda: not file.exists())
