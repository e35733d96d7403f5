"""Files of a question on their way to a model: seen, read, or honestly noted; kept nowhere but in memory."""

import base64
import io
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from bot.observability import configure_logs
from core.chat.attachments import with_files
from core.domain.errors import OutsideRefused, Unavailable
from core.domain.ids import RoomKey
from core.domain.messages import Address, Attachment, MessageKind
from core.providers.model_settings import ModelSettings
from core.store import inbox
from tests.domain.chat_context import context
from tests.doubles.images import gif, jpeg, png, webp
from tests.doubles.model_server import Fail, ModelServer, Say
from tests.fakes import RecordingFrontEnd
from tests.flows.line import Line, running_line

GOOD = Say(["That is a cat."])
CAT = Attachment("image", "cat.png", "image/png", 1_200_000, handle="h1")
MEGABYTES_5 = 5_000_000


@asynccontextmanager
async def line_with(
    dsn: str, server: ModelServer, files: Mapping[str, bytes | Exception], **more: Any
) -> AsyncIterator[Line]:
    """Run a line whose one model sees, on a platform that has these files."""
    front_end = RecordingFrontEnd()
    front_end.files.update(files)
    models = [ModelSettings.model_validate({"name": "eyes", "base_url": server.url, "vision": True, **more})]
    async with running_line(dsn, front_end=front_end, models=models) as line:
        yield line


async def ask(line: Line, *files: Attachment, text: str = "@void what is this?", **changes: Any) -> str:
    await line.say("Ana", text, attachments=files, **changes)
    return (await line.answers(1))[-1]


def sent(server: ModelServer, call: int = -1) -> tuple[str, list[bytes]]:
    """Return the words and the images of a request that arrived."""
    content = server.calls[call].body["messages"][-1]["content"]
    if isinstance(content, str):
        return content, []
    images = [base64.b64decode(part["image_url"]["url"].partition(",")[2]) for part in content[:-1]]
    return content[-1]["text"], images


def shown_turn(words: str) -> str:
    """Return what stands between the marks of the turn."""
    return words[words.index("what is this?") :]


async def test_an_image_reaches_a_model_that_sees(fresh_dsn: str) -> None:
    async with ModelServer(GOOD) as server, line_with(fresh_dsn, server, {"h1": png()}) as line:
        assert await ask(line, CAT) == "That is a cat."
        words, images = sent(server)
    assert images == [png()]
    assert "what is this?\n[image: cat.png, 1.2 MB, image 1 here]\n" in words
    assert words.count("cat.png") == 1


@pytest.mark.field("F024")
async def test_a_picture_alone_is_a_question(fresh_dsn: str) -> None:
    async with ModelServer(GOOD) as server, line_with(fresh_dsn, server, {"h1": jpeg()}) as line:
        await ask(line, CAT, text="", addressed_by=frozenset({Address.REPLY}))
        assert sent(server)[1] == [jpeg()]


async def test_a_model_without_sight_gets_the_note_and_nothing_is_fetched(fresh_dsn: str) -> None:
    async with ModelServer(GOOD) as server, line_with(fresh_dsn, server, {"h1": png()}, vision=False) as line:
        await ask(line, CAT)
        assert sent(server)[1] == [] and "this model reads no images" in sent(server)[0]
        assert line.front_end.fetched == []


async def test_at_most_four_images_go_with_a_question(fresh_dsn: str) -> None:
    files = {f"h{n}": png(rest=bytes([n])) for n in range(6)}
    six = [Attachment("image", f"{n}.png", "image/png", handle=f"h{n}") for n in range(6)]
    async with ModelServer(GOOD) as server, line_with(fresh_dsn, server, files, image_tokens=100) as line:
        await ask(line, *six)
        words, images = sent(server)
    assert images == [files[f"h{n}"] for n in range(4)]
    assert words.count("not shown: over the 4 images of a question") == 2


REFUSED: dict[str, tuple[Attachment, bytes | Exception, str]] = {
    "expired": (CAT, OutsideRefused("x: refused", why="status 404"), "not shown: status 404"),
    "a bug of the library": (CAT, KeyError("x"), "not shown: it could not be fetched"),
    "platform down": (CAT, Unavailable("x: down"), "not shown: it could not be fetched"),
    "no image": (CAT, b"<html>not found</html>", "not shown: it is no PNG, JPEG, WebP or GIF"),
    "an empty file": (CAT, b"", "not shown: it is no PNG, JPEG, WebP or GIF"),
    "too many pixels": (CAT, png(20_000, 20_000), "not shown: it is larger than 8000 pixels"),
    "lies about its size": (CAT, png(rest=bytes(MEGABYTES_5)), "not shown: it could not be fetched"),
    "too large": (Attachment("image", "a.png", "image/png", MEGABYTES_5, handle="h1"), b"", "over the 4 MB limit"),
    "another kind": (Attachment("image", "a.svg", "image/svg+xml", 10, handle="h1"), b"<svg/>", "it is no PNG"),
    "no text": (Attachment("file", "a.zip", "application/zip", 10, handle="h1"), b"PK", "not read: it is no text"),
    "bytes": (Attachment("file", "a.txt", "text/plain", 10, handle="h1"), b"\xc3\x28\0", "not read: it is no text"),
    "long text": (Attachment("file", "a.txt", "text/plain", 300_000, handle="h1"), b"x", "over the 256 KB limit"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_cannot_be_had_is_a_note_and_the_question_is_answered(fresh_dsn: str, case: str) -> None:
    attachment, found, note = REFUSED[case]
    async with ModelServer(GOOD) as server, line_with(fresh_dsn, server, {"h1": found}) as line:
        assert await ask(line, attachment) == "That is a cat."
        words, images = sent(server)
    assert images == [] and note in shown_turn(words)
    assert words.count(attachment.name) == 1


async def test_a_good_image_beside_a_bad_one_is_seen(fresh_dsn: str) -> None:
    files: dict[str, bytes | Exception] = {"h1": b"junk", "h2": webp()}
    other = Attachment("image", "dog.webp", "image/webp", handle="h2")
    async with ModelServer(GOOD) as server, line_with(fresh_dsn, server, files) as line:
        await ask(line, CAT, other)
        words, images = sent(server)
    assert images == [webp()] and "[image: dog.webp, image 1 here]" in words


@pytest.mark.field("F023")
@pytest.mark.parametrize(
    "data", [b"the pump: 7 bar", b"\xef\xbb\xbfthe pump: 7 bar", "the pump: 7 bar".encode("utf-16")]
)
async def test_a_text_file_is_read_into_the_question(fresh_dsn: str, data: bytes) -> None:
    log = Attachment("file", "pump.log", "", 60_000, handle="h1")
    async with ModelServer(GOOD) as server, line_with(fresh_dsn, server, {"h1": data}, vision=False) as line:
        await ask(line, log)
        words = shown_turn(sent(server)[0])
    assert words.startswith(
        "what is this?\n[file: pump.log, 0.1 MB, read as text]\nthe pump: 7 bar\n[end of the file]\n"
    )


async def test_a_file_that_the_front_end_has_read_is_not_fetched_again(fresh_dsn: str) -> None:
    paste = Attachment("file", "message.txt", "text/plain", 9, handle="h1", note="read as text")
    async with ModelServer(GOOD) as server, line_with(fresh_dsn, server, {"h1": b"the paste"}) as line:
        await ask(line, paste, text="@void what is this? the paste")
        assert sent(server)[0].count("the paste") == 1 and line.front_end.fetched == []


async def test_a_text_file_of_the_largest_size_is_cut_to_the_window(fresh_dsn: str) -> None:
    book = Attachment("file", "book.txt", "text/plain", 256 * 1024, handle="h1")
    async with ModelServer(GOOD) as server, line_with(fresh_dsn, server, {"h1": b"words " * 43_690}) as line:
        assert await ask(line, book) == "That is a cat."
        assert "what is this?" in sent(server)[0] and "characters left out" in sent(server)[0]


async def test_an_album_is_one_question_with_all_its_images(fresh_dsn: str) -> None:
    files: dict[str, bytes | Exception] = {f"h{n}": gif(n + 1) for n in range(3)}
    async with ModelServer(GOOD) as server, line_with(fresh_dsn, server, files) as line:
        for n in range(3):
            text = "@void what is this?" if n == 1 else ""
            one = Attachment("image", handle=f"h{n}")
            await line.say("Ana", text, attachments=(one,), album_id="a", quiet_window=True)
        await line.answers(1)
        assert sorted(sent(server)[1]) == sorted(files.values())  # type: ignore[type-var]  # all are bytes
        assert len(server.calls) == 1


async def test_a_fragment_brings_its_image_along(fresh_dsn: str) -> None:
    async with ModelServer(GOOD) as server, line_with(fresh_dsn, server, {"h1": png()}) as line:
        await line.say("Ana", "@void what is this?", quiet_window=True)
        await line.say("Ana", "", attachments=(CAT,), quiet_window=True)
        await line.answers(1)
        assert sent(server)[1] == [png()]


async def test_a_question_that_is_not_answered_fetches_nothing(fresh_dsn: str) -> None:
    async with ModelServer(GOOD) as server, line_with(fresh_dsn, server, {"h1": png()}) as line:
        await line.say("Ana", "look at that", attachments=(CAT,))
        await line.quiet()
        assert line.front_end.fetched == [] and not server.calls
        assert await line.value("select payload -> 'files' from voidbot.inbox") == []


async def test_without_a_model_nothing_is_fetched(fresh_dsn: str) -> None:
    front_end = RecordingFrontEnd()
    async with running_line(fresh_dsn, front_end=front_end) as line:
        await ask(line, CAT)
    assert front_end.fetched == []


async def test_a_process_without_the_connection_says_so() -> None:
    found = await with_files(context("hi"), [CAT], RoomKey("discord", "1"), None, vision=True)
    assert found.images == () and found.turn.notes == (
        "[image: cat.png, 1.2 MB, not read: this process cannot fetch it]",
    )


async def test_an_edit_takes_the_image_away(fresh_dsn: str) -> None:
    async with ModelServer(GOOD) as server, line_with(fresh_dsn, server, {"h1": png()}) as line:
        said = line.message("Ana", "@void what is this?", attachments=(CAT,), quiet_window=True)
        await line.app.accept(said)
        now = "@void what is this? no picture"
        await line.say("Ana", now, message_id=said.message_id, kind=MessageKind.EDIT, revision=1)
        await line.answers(1)
        assert sent(server)[1] == [] and line.front_end.fetched == []


@pytest.mark.parametrize("answer", [GOOD, Fail(400), Fail(401)])
async def test_no_byte_of_an_image_is_in_logs_receipts_or_database(fresh_dsn: str, answer: Say | Fail) -> None:
    secret = "PRIVATE-PIXELS-OF-ANA"
    picture = png(rest=secret.encode())
    stream = io.StringIO()
    async with ModelServer(answer) as server, line_with(fresh_dsn, server, {"h1": picture}) as line:
        handler = configure_logs(level="debug", stream=stream)
        await ask(line, CAT)
        handler.close()
        assert sent(server, 0)[1] == [picture]
        kept = await everything(line)
    for form in (secret, base64.b64encode(picture).decode()[40:80], "IHDR"):
        assert form not in kept and form not in stream.getvalue()
    assert "cat.png" in kept


async def everything(line: Line) -> str:
    """Return every row of every table of ours as text."""
    async with line.database.transaction() as tx:
        tables = await tx.fetch(
            "select schemaname || '.' || tablename as name from pg_tables where schemaname in ('voidbot', 'queue')"
        )
        rows: list[Sequence[object]] = [
            await tx.fetch(f"select to_jsonb(t)::text as row from {table['name']} t") for table in tables
        ]
    return json.dumps([[str(dict(row)) for row in found] for found in rows], default=str)  # type: ignore[call-overload]  # rows


async def test_what_is_kept_of_a_file_goes_with_the_words(fresh_dsn: str) -> None:
    async with ModelServer(GOOD) as server, line_with(fresh_dsn, server, {"h1": png()}) as line:
        await ask(line, CAT)
        async with line.database.transaction() as tx:
            await tx.execute("update voidbot.inbox set blank_after = voidbot.now() - interval '1 s'")
            assert await inbox.blank_old(tx) == 1
        assert await line.value("select payload ? 'files' from voidbot.inbox") is False


VOICE = Attachment("voice", duration_s=14.0, handle="v", note="not transcribed")


@pytest.mark.field("F019")
async def test_a_voice_alone_in_a_direct_room_is_told_once_that_it_was_not_heard(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn) as line:
        for _ in range(3):
            accepted = await line.say("Ana", "", "dm:ana", attachments=(VOICE,))
            assert accepted.outcome == "no_speech"
        (text,) = await line.answers(1)
        assert "oice messages" in text
        assert await line.value("select count(*) from voidbot.decisions where reason = 'unreadable'") == 3


@pytest.mark.field("F019")
async def test_ten_minutes_later_it_is_told_again(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn) as line:
        await line.say("Ana", "", "dm:ana", attachments=(VOICE,))
        await line.answers(1)
        async with line.database.transaction() as tx:
            await tx.execute("update voidbot.rates set tat = tat - $1::interval", timedelta(minutes=10))
        await line.say("Ana", "", "dm:ana", attachments=(VOICE,))
        assert len(await line.answers(2)) == 2


@pytest.mark.field("F019")
async def test_a_voice_in_a_room_speaks_to_nobody(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn) as line:
        how = frozenset({Address.REPLY, Address.MENTION})
        accepted = await line.say("Ana", "", attachments=(VOICE,), addressed_by=how)
        await line.quiet()
        assert accepted.reason == "not_addressed" and not line.front_end.shown


async def test_a_voice_with_words_is_a_question(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn) as line:
        accepted = await line.say("Ana", "what is this?", "dm:ana", attachments=(VOICE,))
        assert accepted.outcome == "reply"
