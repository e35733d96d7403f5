"""An interactive terminal in a process of its own, for the test that types into it; takes the database address."""

import asyncio
import sys
from dataclasses import fields, replace

from bot.adapters.console_chat import ConsoleChat
from bot.adapters.console_screen import InteractiveScreen
from core.domain.messages import InboundMessage
from core.domain.speech import PublicText, SilenceReason
from core.ports import Accepted
from core.store.engine import Database
from core.store.shown import StoredShownMessages
from tests.fakes import ManualClock
from tests.flows.console_core import Core


async def main(dsn: str) -> int:
    """Run one terminal; every message is answered as its text asks."""
    database = await Database.open(dsn, size=4)
    core = Core(database)
    in_turn = asyncio.Lock()
    chat = ConsoleChat(
        StoredShownMessages(database),
        ManualClock(database),
        speaker="Ann",
        room="workshop",
        screen=InteractiveScreen(["usage", "void mode"]),
    )

    async def answer(message: InboundMessage) -> None:
        private_to = "ann" if message.kind == "command" else None
        async with in_turn:  # Numbers follow the order of the questions, however slow the machine.
            message_id, part = await core.say(chat, "First.", to=message, private_to=private_to)
        await asyncio.sleep(0.3)  # The screen looks in between, so that the answer is seen to grow.
        await chat.edit(message_id, replace(part, text=PublicText("First.\nSecond.\x1b[2J")))
        await core.end(message)

    async def accept(message: InboundMessage) -> Accepted:
        if message.text == "be quiet":
            return Accepted("no_speech", SilenceReason.MODE_SILENT, 1)
        accepted = await core.accept(message)
        answers.create_task(answer(message))
        return accepted

    async with asyncio.TaskGroup() as answers:
        await chat.run(accept)
    await database.close()
    for message in core.taken:
        shown = {field.name: getattr(message, field.name) for field in fields(message)}
        print("TOOK", shown["person_ref"], shown["room"].chat_ref, shown["quiet_window"], shown["text"])
    print("EXIT", chat.exit_code)
    return chat.exit_code


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
