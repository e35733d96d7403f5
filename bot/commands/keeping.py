"""`/void mode`: when the bot answers in a room, whether it keeps what is said there, and for how long."""

import re

from bot.commands.admins import room_line
from bot.commands.forgetting import expired, preview_of, start_erasure
from bot.commands.spec import CommandAnswer, CommandCall, Services
from core.domain.archiving import is_archived
from core.domain.erasure import EraseScope, Reach
from core.domain.errors import InputRejected
from core.domain.rooms import ArchiveSwitch, RoomKind, RoomMode
from core.prompt.stock import StockKey
from core.store import places, plans, preview
from core.store.engine import Tx

SWITCHES = ("on", "off", "never")
KEPT = ("keep", "hide", "erase")
DAYS_MOST = 36_500
_SPAN = re.compile(r"(\d{1,5})\s*([dwmy])")
_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
_STAYS = "messages on the platform itself; backups, until one is restored; what is said here from now on"


async def mode(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Set when the bot answers here, whether and for how long it keeps what is said; said in the room.

    What is there when the archive is switched off stays until an administrator says what becomes of it: it is kept,
    hidden from answers and searches, or erased by a plan.
    """
    if (code := call.options.get("plan")) is not None:
        return await _erase_planned(tx, call, services, code)
    wanted = None if (value := call.options.get("mode")) is None else RoomMode(value)
    switch = None if (value := call.options.get("archive")) is None else ArchiveSwitch(value)
    kept, days = call.options.get("kept"), _days(call.options.get("retention"))
    if not {"mode", "archive", "kept", "retention"} & call.options.keys():
        return CommandAnswer(room_line(call.room, services))
    before = is_archived(call.room, services.archiving)
    after = _check(call, wanted, switch, archived=before)
    # What is switched on is found again, with what was hidden before.
    searchable = {"keep": True, "hide": False}.get(kept or "", True if switch is ArchiveSwitch.ON else None)
    await places.save_mode(tx, call.room.id, mode=wanted, archive=switch, by=call.person_id, searchable=searchable)
    said = _Said(call, services)
    if wanted is not None or switch is not None:
        said.add(StockKey.ROOM_MODE_SET, mode=after)
    if switch is ArchiveSwitch.ON and not before:
        said.add(StockKey.ROOM_ARCHIVE_ON)
    if switch in (ArchiveSwitch.OFF, ArchiveSwitch.NEVER) and before:
        said.add(StockKey.ROOM_ARCHIVE_OFF)
    if "retention" in call.options:
        await places.save_retention(tx, call.room.id, days)
        said.add(StockKey.ROOM_RETENTION_SET if days else StockKey.ROOM_RETENTION_OFF, **_shown(days))
    if kept in ("keep", "hide"):
        said.add(StockKey.ROOM_ARCHIVE_SHOWN if kept == "keep" else StockKey.ROOM_ARCHIVE_HIDDEN)
    loud = said.concerns_all
    if switch in (ArchiveSwitch.OFF, ArchiveSwitch.NEVER) and kept is None:
        await _ask(tx, said)
    if kept == "erase":
        said.lines.append((await _preview(tx, call, services)).text)
    return CommandAnswer("\n".join(said.lines), refused=not loud and kept == "erase", concerns_all=loud)


class _Said:
    """What the command says, line by line. `concerns_all`: what is kept, or for how long, has changed."""

    def __init__(self, call: CommandCall, services: Services) -> None:
        self.call, self._services = call, services
        self.lines: list[str] = []
        self.concerns_all = False

    def add(self, key: StockKey, **values: str) -> None:
        self.lines.append(self._services.stock.pick(self.call.room.language, key, 0, **values))
        self.concerns_all |= key is not StockKey.ROOM_MODE_SET


def _check(call: CommandCall, wanted: RoomMode | None, switch: ArchiveSwitch | None, *, archived: bool) -> RoomMode:
    """Return the mode as it would be.

    Raises:
        InputRejected: The switch has no meaning here, or the mode reads along in a room that is not archived.
    """
    if switch is not None and call.room.kind is RoomKind.DM:
        raise InputRejected("archive: direct rooms follow VOIDBOT_STORE_DM and the person's /privacy dm-memory")
    if switch is ArchiveSwitch.ON and call.room.archive_above is ArchiveSwitch.NEVER:
        raise InputRejected("archive: the room that this one hangs on is excluded with all that hangs on it")
    after = wanted or call.room.mode
    archived = archived if switch is None else switch is ArchiveSwitch.ON
    if after in (RoomMode.LURK, RoomMode.OPEN) and not archived:
        raise InputRejected(f"mode: {after} needs the archive; use /void mode {after} archive:on")
    return after


def _days(text: str | None) -> int | None:
    """Return a span in days; None for none and for `off`."""
    if text is None or text.lower() == "off":
        return None
    span = _SPAN.fullmatch(text.lower())
    days = int(span[1]) * _DAYS[span[2]] if span is not None else 0
    if not 0 < days <= DAYS_MOST:
        raise InputRejected("retention: write 90d, 12w, 6m, 2y, or off")
    return days


def _shown(days: int | None) -> dict[str, str]:
    return {} if days is None else {"days": str(days)}


async def _ask(tx: Tx, said: _Said) -> None:
    """Ask what becomes of what is there."""
    there = await preview.count_room(tx, said.call.room.id)
    if there.messages and there.searchable:
        said.add(StockKey.ROOM_ARCHIVE_LEFT, count=str(there.messages))


async def _preview(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    count = await preview.count_matter(tx, [call.room.id], None)
    code = await plans.offer(tx, call.person_id, call.community_id, call.path, {"room": call.room.id}, str(count))
    what = f"erase {count} messages of this room for everybody, with what I made and said from them"
    return preview_of(call, services, what, _STAYS, code)


async def _erase_planned(tx: Tx, call: CommandCall, services: Services, code: str) -> CommandAnswer:
    plan = await plans.take(tx, code, call.person_id, call.community_id, call.path)
    if plan is None or plan.arguments.get("room") != call.room.id:
        return expired(call, services)
    if str(await preview.count_matter(tx, [call.room.id], None)) != plan.state:
        return expired(call, services)
    return await start_erasure(
        tx, call, services, EraseScope(reach=Reach.MATTER, rooms=(call.room.id,), before=call.now), None
    )
