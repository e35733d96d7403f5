"""The routes of the Discord double about application commands: reading and replacing a scope's whole set."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.doubles.discord_payloads import Json
from tests.doubles.discord_rest import Ask, DailyCount, Routes, Rules
from tests.doubles.discord_words import DiscordError, invalid, missing_access
from tests.doubles.discord_world import World

NAME = re.compile(r"[-_'\w]{1,32}")
DESCRIPTION_LIMIT = 100
CHAT_INPUT = 1
OPTION_COUNT = 25


class CommandRoutes:
    """Global commands and those of single guilds; a guild's id is the scope, None is global."""

    def __init__(self, world: World, rules: Rules) -> None:
        self.commands: dict[int | None, list[Json]] = {}
        self._world = world
        self._rules = rules
        self._creates: dict[int | None, DailyCount] = {}

    def routes(self) -> Routes:
        everywhere = "/applications/{application_id}/commands"
        in_guild = "/applications/{application_id}/guilds/{guild_id}/commands"
        return [
            ("GET", everywhere, self.read),
            ("PUT", everywhere, self.replace),
            ("GET", in_guild, self.read),
            ("PUT", in_guild, self.replace),
        ]

    def find(self, guild_id: int | None, name: str) -> Json | None:
        """Return the command that a member of a guild, or of a direct room, would find under a name."""
        scopes = [guild_id, None] if guild_id is not None else [None]
        return next((one for scope in scopes for one in self.commands.get(scope, []) if one["name"] == name), None)

    def _scope(self, ask: Ask) -> int | None:
        if "guild_id" not in ask.params:
            return None
        if ask.key("guild_id") not in self._world.guilds:
            raise missing_access()
        return ask.key("guild_id")

    def read(self, ask: Ask) -> list[Json]:
        return self.commands.get(self._scope(ask), [])

    def replace(self, ask: Ask) -> list[Json]:
        """Replace a scope's commands; those whose name is new count as created today, up to 30034."""
        scope = self._scope(ask)
        for index, command in enumerate(ask.body):
            check_command(command, str(index))
        names = [(one.get("type", CHAT_INPUT), one["name"]) for one in ask.body]
        if len(set(names)) < len(names):
            raise invalid("name", "APPLICATION_COMMANDS_DUPLICATE_NAME", "Option names must be unique")
        old = {(one["type"], one["name"]): one for one in self.commands.get(scope, [])}
        created = self._creates.setdefault(scope, DailyCount(self._world.clock))
        limit = self._rules.command_creates_per_day
        if created.add(len(set(names) - set(old))) > limit:
            problem = f"Max number of daily application command creates has been reached ({limit})"
            raise DiscordError(400, 30034, problem)
        self.commands[scope] = [self._stored(one, old, scope) for one in ask.body]
        return self.commands[scope]

    def _stored(self, command: Mapping[str, Any], old: Mapping[tuple[int, str], Json], scope: int | None) -> Json:
        kind = command.get("type", CHAT_INPUT)
        same = old.get((kind, command["name"]))
        place = {} if scope is None else {"guild_id": str(scope)}
        return {
            "description": "",
            **command,
            "id": same["id"] if same else str(self._world.ids.next()),
            "type": kind,
            "application_id": str(self._world.bot.id),
            "version": str(self._world.ids.next()),
            **place,
        }


def check_command(command: Mapping[str, Any], path: str) -> None:
    """Raise 50035 for a command or an option that Discord would refuse."""
    kind, name = command.get("type", CHAT_INPUT), command["name"]
    is_menu = path.isdigit() and kind != CHAT_INPUT
    if not is_menu and (not NAME.fullmatch(name) or name != name.lower()):
        raise invalid(f"{path}.name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
    if not is_menu and not 1 <= len(command.get("description", "")) <= DESCRIPTION_LIMIT:
        raise invalid(f"{path}.description", "BASE_TYPE_BAD_LENGTH", f"Must be between 1 and {DESCRIPTION_LIMIT}.")
    options: Sequence[Mapping[str, Any]] = command.get("options") or []
    if len(options) > OPTION_COUNT:
        raise invalid(f"{path}.options", "BASE_TYPE_MAX_LENGTH", f"Must be {OPTION_COUNT} or fewer in length.")
    for index, option in enumerate(options):
        check_command(option, f"{path}.options.{index}")
