"""Commands, buttons and forms at the Discord double, seen through the real client library."""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable

import discord
import pytest
from discord import app_commands

from tests.doubles.discord_faults import FaultKind
from tests.doubles.discord_interactions import Interaction
from tests.doubles.discord_library import Listener, Place, open_place, running

Pressed = discord.Interaction[Listener]


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with open_place() as opened:
        yield opened


class Asker(Listener):
    """A client with a few commands; `answer` is what /ask does, and what it raised is kept."""

    def __init__(self, answer: Callable[[Pressed], Awaitable[None]]) -> None:
        super().__init__()
        self.refused: list[discord.HTTPException] = []
        self.given: list[object] = []

        @self.tree.command(name="ask", description="Ask something")
        async def ask(interaction: Pressed, question: str, who: discord.Member | None = None) -> None:
            self.given += [question, who]
            try:
                await answer(interaction)
            except discord.HTTPException as error:
                self.refused.append(error)

        @ask.autocomplete("question")
        async def questions(_interaction: Pressed, typed: str) -> list[app_commands.Choice[str]]:
            return [app_commands.Choice(name=f"{typed} {end}", value=f"{typed}{end}") for end in ("one", "two")]

        group = app_commands.Group(name="void", description="The bot's own")

        @group.command(name="cases", description="Open cases")
        async def cases(interaction: Pressed, limit: int) -> None:
            await interaction.response.send_message(f"{limit} cases", ephemeral=True)

        self.tree.add_command(group)

    async def setup_hook(self) -> None:
        await self.tree.sync()


async def ask(place: Place, client: Asker) -> Interaction:
    """Let Ada ask, and wait until the command is through."""
    before = len(client.given)
    made = await place.server.slash(place.ada, place.room, "ask", {"question": "why?", "who": place.ada})
    await place.server.until(lambda: len(client.given) > before)
    return made


async def think_and_say(interaction: Pressed) -> None:
    await interaction.response.defer(thinking=True)
    await interaction.edit_original_response(content="because")
    await interaction.followup.send("and moreover")


async def test_a_command_is_deferred_edited_and_followed_up(place: Place) -> None:
    async with running(place.server, client := Asker(think_and_say)):
        made = await ask(place, client)
        await place.server.until(lambda: len(made.followups) == 1)
    assert made.acked and not made.deferred and made.text == "because"
    assert made.ack_s is not None and made.ack_s <= place.server.ack_deadline
    assert place.texts() == ["because", "and moreover"]
    assert client.given[0] == "why?" and client.given[1].id == place.ada.id  # type: ignore[attr-defined]  # a member


async def test_while_the_bot_thinks_there_is_no_text(place: Place) -> None:
    go_on = asyncio.Event()

    async def answer(interaction: Pressed) -> None:
        await interaction.response.defer(thinking=True)
        await go_on.wait()
        await interaction.followup.send("the first words take its place")

    async with running(place.server, client := Asker(answer)):
        made = await ask(place, client)
        await place.server.until(lambda: made.deferred)
        assert made.acked and made.text is None
        go_on.set()
        await place.server.until(lambda: made.text is not None)
    assert place.texts() == ["the first words take its place"] and made.followups == []


async def test_private_answers_are_in_no_channel(place: Place) -> None:
    async def answer(interaction: Pressed) -> None:
        await interaction.response.send_message("for you alone", ephemeral=True)
        await interaction.edit_original_response(content="still for you alone")
        assert (await interaction.original_response()).content == "still for you alone"
        await interaction.delete_original_response()

    async with running(place.server, client := Asker(answer)):
        made = await ask(place, client)
        await place.server.until(lambda: made.original is not None and made.original.deleted)
    assert made.original is not None and made.original.content == "still for you alone" and made.original.ephemeral
    assert place.texts() == [] and client.texts() == [] and not client.refused


async def test_an_answer_may_carry_a_file(place: Place) -> None:
    async def answer(interaction: Pressed) -> None:
        await interaction.response.send_message("see", file=discord.File(io.BytesIO(b"data"), "data.bin"))

    async with running(place.server, client := Asker(answer)):
        made = await ask(place, client)
        await place.server.until(lambda: made.text == "see")
    assert place.server.messages(place.room)[0].attachments[0].data == b"data"


async def test_a_late_first_answer_is_10062(place: Place) -> None:
    async def answer(interaction: Pressed) -> None:
        await place.clock.advance(place.server.ack_deadline + 1)
        await interaction.response.defer()

    async with running(place.server, client := Asker(answer)):
        made = await ask(place, client)
        await place.server.until(lambda: bool(client.refused))
    assert client.refused[0].code == 10062 and not made.acked


async def test_a_second_first_answer_is_40060(place: Place) -> None:
    async def answer(interaction: Pressed) -> None:
        place.server.fault(FaultKind.STATUS_AFTER, match="POST */callback", status=502)
        await interaction.response.send_message("said")

    async with running(place.server, client := Asker(answer)):
        made = await ask(place, client)
        await place.server.until(lambda: bool(client.refused))
    assert client.refused[0].code == 40060
    assert made.text == "said" and len(made.responses) == 1


async def test_an_old_token_is_50027(place: Place) -> None:
    async def answer(interaction: Pressed) -> None:
        await interaction.response.defer(thinking=True)
        await place.clock.advance(place.server.token_life + 1)
        await interaction.edit_original_response(content="too late")

    async with running(place.server, client := Asker(answer)):
        made = await ask(place, client)
        await place.server.until(lambda: bool(client.refused))
    assert client.refused[0].code == 50027 and made.deferred


async def test_automod_may_refuse_the_answer_to_a_command(place: Place) -> None:
    place.guild.blocked_words.add("because")
    async with running(place.server, client := Asker(think_and_say)):
        made = await ask(place, client)
        await place.server.until(lambda: bool(client.refused))
    assert client.refused[0].code == 200000 and made.deferred


async def test_typing_into_an_option_brings_choices(place: Place) -> None:
    async with running(place.server, Asker(think_and_say)):
        made = await place.server.autocomplete(place.ada, place.room, "ask", "question", "number ")
        await place.server.until(lambda: made.choices is not None)
    assert [choice["value"] for choice in made.choices or []] == ["number one", "number two"]


async def test_subcommands_and_direct_rooms(place: Place) -> None:
    async with running(place.server, client := Asker(think_and_say)):
        made = await place.server.slash(place.ada, place.server.dm(place.ada), "void cases", {"limit": 3})
        await place.server.until(lambda: made.text is not None)
    assert made.text == "3 cases" and not client.refused


async def test_only_registered_commands_can_be_used(place: Place) -> None:
    async with running(place.server, client := Asker(think_and_say)):
        with pytest.raises(AssertionError, match="no command /removed"):
            await place.server.slash(place.ada, place.room, "removed")
        await place.server.slash(place.ada, place.room, "removed", stale=True)
        await place.server.until(lambda: bool(client.events("interaction")))


class Sheet(discord.ui.Modal, title="Your reason"):
    """A form with one question."""

    reason: discord.ui.TextInput["Sheet"] = discord.ui.TextInput(label="Why?", custom_id="reason")

    async def on_submit(self, interaction: discord.Interaction) -> None:
        await interaction.response.send_message(f"because {self.reason.value}")


class Choice(discord.ui.View):
    """Two buttons and a menu."""

    @discord.ui.button(label="Done", custom_id="done")
    async def done(self, interaction: discord.Interaction, _button: "discord.ui.Button[Choice]") -> None:
        await interaction.response.edit_message(content="done", view=None)

    @discord.ui.button(label="Explain", custom_id="explain")
    async def explain(self, interaction: discord.Interaction, _button: "discord.ui.Button[Choice]") -> None:
        await interaction.response.send_modal(Sheet())

    @discord.ui.select(custom_id="pick", options=[discord.SelectOption(label=name) for name in ("red", "blue")])
    async def pick(self, interaction: discord.Interaction, menu: "discord.ui.Select[Choice]") -> None:
        await interaction.response.defer()
        await interaction.edit_original_response(content=f"picked {menu.values[0]}")


async def test_buttons_menus_and_forms(place: Place) -> None:
    async with running(place.server, Listener()) as client:
        sent = await (await place.seen(client)).send("choose", view=Choice())
        message = place.room.messages[sent.id]
        picked = await place.server.click(place.ada, message, "pick", values=["blue"])
        await place.server.until(lambda: message.content == "picked blue")
        opened = await place.server.click(place.ada, message, "explain")
        await place.server.until(lambda: opened.modal is not None)
        form = await place.server.submit_modal(opened, {"reason": "of the rain"})
        await place.server.until(lambda: form.text == "because of the rain")
        await place.server.click(place.ada, message, "done")
        await place.server.until(lambda: message.content == "done")
    assert picked.acked and message.components == []
    with pytest.raises(AssertionError, match="cannot be pressed"):
        await place.server.click(place.ada, message, "done")


async def test_commands_are_replaced_as_a_whole(place: Place) -> None:
    async with running(place.server, client := Asker(think_and_say)):
        first = {command.name: command.id for command in await client.tree.fetch_commands()}
        client.tree.remove_command("void")
        await client.tree.sync()
        guild = discord.Object(place.guild.id)
        client.tree.copy_global_to(guild=guild)
        await client.tree.sync(guild=guild)
        left = {command.name: command.id for command in await client.tree.fetch_commands()}
    assert set(first) == {"ask", "void"} and left == {"ask": first["ask"]}
    assert [one["name"] for one in place.server.commands[place.guild.id]] == ["ask"]
    assert place.server.commands[None][0]["contexts"] is None


async def test_a_day_has_only_so_many_new_commands(place: Place) -> None:
    place.server.command_creates_per_day = 2
    async with running(place.server, client := Asker(think_and_say)):
        client.tree.add_command(app_commands.Command(name="more", description="More", callback=noop))
        with pytest.raises(discord.HTTPException) as refused:
            await client.tree.sync()
        assert refused.value.code == 30034
        await place.clock.advance(86_400)
        await client.tree.sync()
    assert {one["name"] for one in place.server.commands[None]} == {"ask", "void", "more"}


async def test_a_429_can_fall_between_two_command_writes(place: Place) -> None:
    place.server.fault(FaultKind.UNANNOUNCED_429, match="PUT */commands", skip=1)
    async with running(place.server, client := Asker(think_and_say)):
        await client.tree.sync()
    assert [call.status for call in place.server.called("PUT", "/commands")] == [200, 429, 200]


async def noop(interaction: discord.Interaction) -> None:
    """Do nothing."""
