"""What of live events the archive keeps: files, reactions, deletions, direct rooms, copies by proxy services."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from bot.archive_settings import ArchiveSettings
from core.domain.messages import Attachment, InboundMessage, MessageKind, Origin, Reaction, ReactionChange
from core.domain.speech import SilenceReason
from core.store import erasure
from tests.fakes import ScriptedModel
from tests.flows.line import Line, running_line


@pytest.fixture
async def line(fresh_dsn: str) -> AsyncIterator[Line]:
    """A line whose lobby is archived."""
    async with running_line(fresh_dsn, model=ScriptedModel(lambda _: "At ten.")) as running:
        await running.say("Root", "/void mode lurk archive:on")
        await running.quiet()
        async with running.database.transaction() as tx:
            await tx.execute("delete from voidbot.messages")  # the bot's own word about it
        yield running


async def accept(line: Line, message: InboundMessage) -> SilenceReason | None:
    return (await line.app.accept(message)).reason


async def rows(line: Line, sql: str) -> list[tuple[object, ...]]:
    async with line.database.transaction() as tx:
        return [tuple(row) for row in await tx.fetch(sql)]


def reaction(line: Line, person: str, target: str, change: ReactionChange, *emoji: str) -> InboundMessage:
    return line.message(
        person, " ".join(emoji), kind=MessageKind.REACTION, reply_to=target, reaction=Reaction(change, emoji)
    )


async def test_files_replies_and_forwards_are_kept_with_the_message(line: Line) -> None:
    first = line.message("Ana", "", attachments=(Attachment("file", "plan.txt", "text/plain", 42, handle="1/2/3"),))
    await accept(line, first)
    await line.say("Ben", "", reply_to=first.message_id, forwarded_from="the news", quotes=("[forwarded]\nit rains",))
    assert await rows(line, "select kind, name, bytes, fetch_handle from voidbot.attachments") == [
        ("file", "plan.txt", 42, "1/2/3")
    ]
    assert await rows(
        line,
        "select m.kind, t.platform_ref, m.forwarded_from from voidbot.messages m"
        " left join voidbot.messages t on t.id = m.reply_to_id order by m.id",
    ) == [("media", None, ""), ("forward", first.message_id, "the news")]


async def test_reactions_follow_what_the_platform_tells(line: Line) -> None:
    said = line.message("Ana", "cake on friday")
    await accept(line, said)
    target = said.message_id
    held = "select account_ref, emoji from voidbot.reactions r join voidbot.people p on p.id = person_id order by 1, 2"
    for change, who, emoji in (
        (ReactionChange.ADD, "Ben", "👍"),
        (ReactionChange.ADD, "Ben", "👍"),
        (ReactionChange.ADD, "Cem", "🎉"),
        (ReactionChange.REMOVE, "Ben", "🎉"),
    ):
        await accept(line, reaction(line, who, target, change, emoji))
    assert await rows(line, held) == [("ben", "👍"), ("cem", "🎉")]
    await accept(line, reaction(line, "Ben", target, ReactionChange.SET, "🔥", "🎉"))
    assert await rows(line, held) == [("ben", "🎉"), ("ben", "🔥"), ("cem", "🎉")]
    await accept(line, reaction(line, "Ben", target, ReactionChange.CLEAR, "🎉"))
    assert await rows(line, held) == [("ben", "🔥")]
    await accept(line, reaction(line, "Ben", target, ReactionChange.CLEAR))
    assert await rows(line, held) == []


async def test_a_reaction_to_what_is_not_kept_meets_nobody(line: Line) -> None:
    await accept(line, reaction(line, "Stranger", "m999", ReactionChange.ADD, "👍"))
    assert await line.value("select count(*) from voidbot.people where account_ref = 'stranger'") == 0
    assert await line.value("select count(*) from voidbot.inbox where kind = 'reaction'") == 0


async def test_a_bulk_deletion_is_one_transaction_and_holds_against_late_messages(line: Line) -> None:
    said = [line.message("Ana", f"cake {n}") for n in range(3)]
    for each in said[:2]:
        await accept(line, each)
    refs = tuple(each.message_id for each in said)
    await accept(line, line.message("Ana", "", kind=MessageKind.DELETE, message_id=refs[0], more_refs=refs[1:]))
    assert await accept(line, replace(said[2], addressed_by=frozenset())) is SilenceReason.TRIGGER_DELETED
    stones = "select platform_ref, text, delete_reason, deleted_at = max(deleted_at) over () from voidbot.messages"
    stones += " order by platform_ref"
    assert await rows(line, stones) == [(ref, "", "deleted", True) for ref in sorted(refs)]
    assert await line.value("select count(*) from voidbot.inbox where text like 'cake%'") == 0


async def test_an_edit_of_something_unheard_is_kept_as_it_is_now(line: Line) -> None:
    edit = line.message("Ana", "cake on saturday", kind=MessageKind.EDIT, message_id="m500")
    await accept(line, edit)
    assert await line.value("select text from voidbot.messages") == "cake on saturday"


async def test_where_newer_words_are_not_kept_the_older_ones_go(line: Line) -> None:
    said = line.message("Ana", "cake on friday")
    await accept(line, said)
    await line.say("Root", "/void mode mention archive:off")
    await line.quiet()
    same = replace(said, kind=MessageKind.EDIT, event_id="e-same")
    await accept(line, same)
    assert await line.value("select text from voidbot.messages where platform_ref = $1", said.message_id) == said.text
    await accept(line, replace(same, text="cake never", event_id="e-other"))
    assert await line.value("select delete_reason from voidbot.messages where text = ''") == "edited"


async def test_direct_rooms_are_kept_where_the_operator_allows_and_the_person_agrees(fresh_dsn: str) -> None:
    model = ScriptedModel(lambda _: "At ten.")
    for who, store, agrees, kept in (("Ana", False, True, 0), ("Ben", True, False, 0), ("Cem", True, True, 2)):
        async with running_line(fresh_dsn, model=model, archive=ArchiveSettings(store_dm=store)) as line:
            await line.say(who, "/privacy", f"dm:{who}", message_id=f"a{who}", event_id=f"a{who}")
            await line.quiet()
            async with line.database.transaction() as tx:
                await tx.execute("update voidbot.people set dm_memory = $1", agrees)
            await line.say(who, "when do you open?", f"dm:{who}", message_id=f"b{who}", event_id=f"b{who}")
            await line.quiet()
            talk = "select count(*) from voidbot.messages where text in ('when do you open?', 'At ten.')"
            assert await line.value(talk) == kept, who
            assert sum("nobody else reads it" in text for text in line.front_end.texts()) == (kept > 0)


async def test_what_is_not_archived_is_counted_by_its_reason(line: Line) -> None:
    await line.say("Ben", "elsewhere", room="other")
    metrics = line.app.parts.metrics.text().decode()
    assert 'voidbot_archive_skipped_total{reason="not_allowed"} 1.0' in metrics


# Copies by proxy services


def spoken(line: Line, text: str) -> tuple[InboundMessage, InboundMessage, InboundMessage]:
    """Return what Ana wrote, its deletion, and its copy by a webhook under the name Rook."""
    original = line.message("Ana", f"@void r: {text}")
    gone = line.message("Ana", "", kind=MessageKind.DELETE, message_id=original.message_id, display_name="")
    copy = line.message(
        "Rook", f"r: {text}", origin=Origin.WEBHOOK, person_ref="webhook:9:rook", webhook_ref="9",
        sent_at=original.sent_at + timedelta(seconds=1),
    )  # fmt: skip
    return original, gone, copy


@pytest.mark.field("F026")
@pytest.mark.parametrize("order", ["original gone copy", "original copy gone", "copy original gone"])
async def test_a_copied_message_is_one_message_and_one_turn(line: Line, order: str) -> None:
    named = dict(zip(("original", "gone", "copy"), spoken(line, "when does the door open?"), strict=True))
    for name in order.split():
        await accept(line, named[name])
    shown = len(line.front_end.shown)
    await line.answers(shown + 1)
    assert len(line.front_end.shown) == shown + 1
    assert list(line.front_end.shown.values())[-1].part.reply_to == named["copy"].message_id
    assert await rows(
        line,
        "select m.platform_ref, n.name, p.kind, p.is_bot, o.account_ref from voidbot.messages m"
        " join voidbot.people p on p.id = m.author_id join voidbot.people o on o.id = m.proxy_of"
        " join voidbot.person_names n on n.person_id = p.id where m.deleted_at is null",
    ) == [(named["copy"].message_id, "Rook", "proxy", False, "ana")]
    assert await line.value("select count(*) from voidbot.messages where text like '%door%'") == 1


async def test_an_original_that_was_answered_is_not_answered_again(line: Line) -> None:
    original, gone, copy = spoken(line, "when does the door open?")
    await accept(line, original)
    await line.answers(2)
    await accept(line, gone)
    await accept(line, copy)
    await line.quiet()
    assert len(line.front_end.shown) == 2


async def test_rooms_wait_for_a_copy_once_one_was_seen(line: Line) -> None:
    for message in spoken(line, "when does the door open?"):
        await accept(line, message)
    await line.quiet()
    await line.say("Ben", "@void and when does it close?", quiet_window=True)
    wait = "select extract(epoch from closes_at - opened_at)::float from voidbot.turns order by id desc limit 1"
    assert await line.value(wait) == 5.0


async def test_words_under_another_name_follow_the_choice_of_their_writer(line: Line) -> None:
    for message in spoken(line, "the key is blue"):
        await accept(line, message)
    await line.quiet()
    found = "select count(*) from voidbot.messages where text like '%blue%'"
    assert await line.value(found) == 1
    async with line.database.transaction() as tx:
        await tx.execute("update voidbot.people set opted_out = true where account_ref = 'ana'")
    for message in spoken(line, "the lock is blue"):
        await accept(line, message)
    await line.say("Ben", "/search blue")
    await line.quiet()
    assert await line.value(found) == 1 and "blue" not in line.front_end.texts()[-1].split("\n", 1)[-1]


async def test_a_webhook_without_an_original_is_a_machine(line: Line) -> None:
    await accept(line, spoken(line, "build 7 passed")[2])
    people = "select p.is_bot, m.proxy_of from voidbot.messages m join voidbot.people p on p.id = m.author_id"
    assert await rows(line, people) == [(True, None)]


async def test_with_all_words_shown_under_a_name_the_name_is_erased(line: Line) -> None:
    for message in (*spoken(line, "the key is blue"), *spoken(line, "the lock is red")):
        await accept(line, message)
    names = "select count(*) from voidbot.person_names where name = 'Rook'"
    async with line.database.transaction() as tx:
        first, second = await tx.fetch("select id from voidbot.messages where proxy_of is not null")
        await erasure.bury(tx, [first["id"]])
        assert await tx.fetchval(names) == 1
        await erasure.bury(tx, [second["id"]])
        assert await tx.fetchval(names) == 0
