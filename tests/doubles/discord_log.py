"""A guild's own log at the Discord double: what was done to members and messages, by whom, and how it is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tests.doubles.discord_payloads import Json, user_json
from tests.doubles.discord_rest import Ask, Routes
from tests.doubles.discord_state import Guild, User
from tests.doubles.discord_words import Permission, missing_permission, moment, unknown
from tests.doubles.discord_world import World

KEPT = timedelta(days=45)
LARGEST_PAGE = 100
EMPTY_HERE = (
    "webhooks", "integrations", "threads", "application_commands", "auto_moderation_rules", "guild_scheduled_events",
)  # fmt: skip
"""Lists of the answer that the double has nothing for."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line of the log. `action` is Discord's own number; `by` None: the platform did it by a rule."""

    id: int
    guild: Guild
    action: int
    by: User | None
    target_id: int
    reason: str | None = None
    changes: Sequence[Mapping[str, Any]] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> Json:
        body: Json = {
            "id": str(self.id),
            "action_type": self.action,
            "user_id": str(self.by.id if self.by else self.target_id),
            "target_id": str(self.target_id),
        }
        optional = {"reason": self.reason, "changes": list(self.changes), "options": dict(self.options)}
        return body | {name: value for name, value in optional.items() if value}


class GuildLog:
    """Writes the log down, tells of each entry, and serves `/guilds/{id}/audit-logs`."""

    def __init__(self, world: World) -> None:
        self.entries: list[LogEntry] = []
        self._world = world
        world.log = self.note

    def note(self, guild: Guild, action: int, by: User | None, target_id: int, **more: Any) -> None:
        """Add an entry, such as one with `reason`, `changes`, `options`; `age` puts it into the past."""
        age: timedelta = more.pop("age", timedelta())
        key = self._world.ids.next(self._world.clock.now() - age if age else None)
        self.entries.append(LogEntry(key, guild, action, by, target_id, **more))
        self._world.tell("GUILD_AUDIT_LOG_ENTRY_CREATE", self.entries[-1], guild=guild)

    def routes(self) -> Routes:
        return [("GET", "/guilds/{guild_id}/audit-logs", self.page)]

    def page(self, ask: Ask) -> Json:
        """Return entries: with `after` from the oldest on, else from the newest back; older than 45 days are gone."""
        guild = self._world.guilds.get(ask.key("guild_id"))
        if guild is None:
            raise unknown("Guild", 10004)
        if not guild.me.permissions() & Permission.VIEW_AUDIT_LOG:
            raise missing_permission()
        now, limit = self._world.clock.now(), min(LARGEST_PAGE, int(ask.query.get("limit", 50)))
        kept = [one for one in self.entries if one.guild is guild and now - moment(one.id) <= KEPT]
        kept.sort(key=lambda one: one.id)
        if "after" in ask.query:
            shown = [one for one in kept if one.id > int(ask.query["after"])][:limit]
        else:
            before = int(ask.query.get("before") or 1 << 63)
            shown = [one for one in reversed(kept) if one.id < before][:limit]
        users = {one.by.id: one.by for one in shown if one.by is not None}
        return {
            "audit_log_entries": [one.to_json() for one in shown],
            "users": [user_json(user) for user in users.values()],
            **{key: [] for key in EMPTY_HERE},
        }
