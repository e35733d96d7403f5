"""A community that is moderated, over the whole line: members who talk, staff who press, a platform that acts."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from core.domain.choices import ChoiceRef
from core.domain.ids import CommunityId, RoomKey
from core.domain.messages import Address, Attachment, InboundMessage, MessageKind, Origin
from core.domain.moderation.rules import Level
from core.ports import Accepted
from tests.fakes import RecordingActs, Shown
from tests.flows.line import Line, running_line

PROGRAM = Attachment(kind="file", name="free_gift.exe", mime="application/octet-stream", size_bytes=9000, handle="x")
STAFF = "workshop"


class House:
    """A line with the few acts that tests of moderation repeat."""

    def __init__(self, line: Line) -> None:
        self.line = line

    @property
    def acts(self) -> RecordingActs:
        """What the platform was told to do."""
        return self.line.front_end.acts

    async def community(self) -> CommunityId:
        found = await self.line.value("select community_id from voidbot.rooms where chat_ref = 'lobby'")
        assert isinstance(found, int)
        return CommunityId(found)

    async def command(self, person: str, text: str, room: str = STAFF, **more: object) -> str:
        """Use a command; return what its user alone is told."""
        before = len(self.line.front_end.shown)
        await self.line.say(person, text, room, **more)
        await self.line.quiet()
        mine = list(self.line.front_end.shown.values())[before:]
        return "\n".join(each.text for each in mine if each.part.private_to == person.lower() or each.part.reply_to)

    async def set_level(self, rule: str, level: Level) -> None:
        assert f"level {level}" in await self.command("Root", f"/void rules set id:{rule} level:{level}")

    async def edit(self, message: InboundMessage, text: str, revision: int = 1) -> Accepted:
        """Let somebody change what they said."""
        changed = replace(
            message, kind=MessageKind.EDIT, text=text, revision=revision, event_id=f"{message.event_id}:{revision}"
        )
        return await self.line.app.receiver.accept(changed)

    async def say_by_webhook(self, text: str) -> None:
        """Let a webhook hand a program over."""
        message = self.line.message("Hook", text, origin=Origin.WEBHOOK, attachments=(PROGRAM,))
        await self.line.app.receiver.accept(message)
        await self.line.quiet()

    def cards(self) -> list[Shown]:
        """The messages in the staff's room that have, or had, something to press, or tell of a case."""
        staff = RoomKey(self.line.front_end.name, STAFF)
        shown = self.line.front_end.shown.values()
        return [
            each for each in shown if each.part.room == staff and not each.part.private_to and "Case " in each.text[:5]
        ]

    async def press(self, person: str, card: Shown, label: str, **more: object) -> str:
        """Press what begins with a label below a card; return what the presser alone is told."""
        n = next(n for n, each in enumerate(card.part.choices, 1) if each.label.startswith(label))
        assert card.part.outbox_id is not None
        before = len(self.line.front_end.shown)
        await self.line.say(
            person,
            ChoiceRef(card.part.outbox_id, n).text(),
            STAFF,
            kind=MessageKind.BUTTON,
            reply_to=card.id,
            addressed_by=frozenset({Address.COMMAND}),
            **more,
        )
        await self.line.quiet()
        return "\n".join(
            each.text for each in list(self.line.front_end.shown.values())[before:] if each.part.private_to
        )

    async def cases(self) -> Sequence[tuple[int, str, str, str]]:
        """Number, rule, status and outcome of each case, oldest first."""
        async with self.line.database.transaction(durable=False) as tx:
            rows = await tx.fetch("select id, rule_id, status, outcome from voidbot.cases order by id")
        return [(row["id"], row["rule_id"], row["status"], row["outcome"]) for row in rows]


@asynccontextmanager
async def open_house(dsn: str, **more: object) -> AsyncIterator[House]:
    """The sample community with a staff room; a program that is handed over breaks the rule scam."""
    async with running_line(dsn, sample=True, **more) as line:  # type: ignore[arg-type]  # a test's own changes
        house = House(line)
        told = await house.command("Root", "/void room staff on", STAFF)
        assert "staff's room" in told, told
        yield house
