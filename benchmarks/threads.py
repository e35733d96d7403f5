"""How often a line's answered line is found without a model, and how often the lines shown beside it hold it.

A set is a folder with `rooms.jsonl` and `links.jsonl`; stored edges of `rooms.jsonl` are left out, for they are what is
to be found. An empty list of links, or a line's own id in it, begins a thread and counts as one link to itself.
`link_f` is the F measure in percent over all links, `window_20` the share of answering lines of which a line that they
answer is among the 20 shown. `per_s` counts predictions in a second of the processor over lines that were read before,
`per_s_fresh` over a window that is read anew for each.
"""

import argparse
import json
import platform
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from core.domain.threads import SHOWN_LINES, WINDOW_LINES, Line, context_window, predict_reply

ROOMS, LINKS = "rooms.jsonl", "links.jsonl"
SERVER = "==="
"""The author of lines that the server wrote."""
LOOK_BACK = 2 * WINDOW_LINES
QUICK_LINKS = 200
FRESH_EVERY = 20


class Malformed(Exception):
    """Data are absent or not in the format; the message names file and line."""


class Said(BaseModel):
    """One line of `rooms.jsonl`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    room: str
    message_id: str
    author: str
    ts: datetime
    text: str
    reply_to: str | None
    session: str | None
    caption: str | None


class Linked(BaseModel):
    """One line of `links.jsonl`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    room: str
    message_id: str
    reply_to: list[str]


@dataclass(slots=True)
class Tally:
    """What was counted in one room."""

    messages: int = 0
    links: int = 0
    hits: int = 0
    answering: int = 0
    shown: int = 0

    @property
    def link_f(self) -> float:
        """Return the F measure in percent: every message is given one link."""
        return round(200 * self.hits / max(self.messages + self.links, 1), 1)


def sets(folder: Path) -> list[Path]:
    """Return `folder` if it is a set, else the sets in it."""
    if (folder / LINKS).is_file():
        return [folder]
    found = sorted(each.parent for each in folder.glob(f"*/{LINKS}"))
    if not found:
        raise Malformed(f"{folder}: holds no set with {LINKS}")
    return found


def records(file: Path, model: type[BaseModel]) -> Iterator[tuple[int, Any]]:
    """Yield each record of a file with the number of its line."""
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, model.model_validate_json(line)
    except OSError as exc:
        raise Malformed(f"{file}: cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise Malformed(f"{file}: is not UTF-8") from exc
    except ValidationError as exc:
        where = ".".join(map(str, exc.errors()[0]["loc"])) or "the line"
        raise Malformed(f"{file}:{number}: {where}: {exc.errors()[0]['type']}") from exc


def read_rooms(file: Path) -> dict[str, list[Line]]:
    """Return the lines of each room in order."""
    rooms: dict[str, list[Line]] = defaultdict(list)
    seen: set[tuple[str, str]] = set()
    for number, said in records(file, Said):
        room = rooms[said.room]
        if (said.room, said.message_id) in seen:
            raise Malformed(f"{file}:{number}: message_id: stands twice in its room")
        if said.ts.tzinfo is None or (room and said.ts <= room[-1].sent_at):
            raise Malformed(f"{file}:{number}: ts: has no zone or does not rise")
        seen.add((said.room, said.message_id))
        room.append(
            Line(
                ref=said.message_id,
                author=said.author,
                names=(said.author,),
                sent_at=said.ts,
                text=said.text,
                service=said.author == SERVER,
            )
        )
    return rooms


def read_links(file: Path, rooms: Mapping[str, Sequence[Line]]) -> list[Linked]:
    """Return what is to be found; every id must be in its room."""
    known = {room: {line.ref for line in lines} for room, lines in rooms.items()}
    links: list[Linked] = []
    for number, linked in records(file, Linked):
        if not {linked.message_id, *linked.reply_to} <= known.get(linked.room, set()):
            raise Malformed(f"{file}:{number}: message_id or reply_to: is not in its room")
        links.append(linked)
    return links


def measure(folder: Path, quick: bool) -> dict[str, object]:
    """Return the figures of one set."""
    rooms = read_rooms(folder / ROOMS)
    links = read_links(folder / LINKS, rooms)[: QUICK_LINKS if quick else None]
    places = {room: {line.ref: place for place, line in enumerate(lines)} for room, lines in rooms.items()}
    tallies: dict[str, Tally] = defaultdict(Tally)
    known_s = fresh_s = 0.0
    fresh = 0
    for number, linked in enumerate(links):
        place = places[linked.room][linked.message_id]
        window, message = rooms[linked.room][max(0, place - LOOK_BACK) : place], rooms[linked.room][place]
        began = time.process_time()
        link = predict_reply(window, message)
        known_s += time.process_time() - began
        count(tallies[linked.room], linked, link.ref, context_window(window, message))
        if number % FRESH_EVERY == 0:
            began = time.process_time()
            predict_reply([replace(line) for line in window[-WINDOW_LINES:]], replace(message))
            fresh_s, fresh = fresh_s + time.process_time() - began, fresh + 1
    whole = total(tallies.values())
    return {
        "set": folder.name,
        "n": whole.messages,
        "link_f": whole.link_f,
        "window_20": round(whole.shown / max(whole.answering, 1), 3),
        "per_s": round(len(links) / max(known_s, 1e-9)),
        "per_s_fresh": round(fresh / max(fresh_s, 1e-9)),
        "rooms": {room: tally.link_f for room, tally in tallies.items()},
        "config": {"quick": quick, "window": WINDOW_LINES, "shown": SHOWN_LINES, "python": platform.python_version()},
    }


def count(tally: Tally, linked: Linked, predicted: str | None, shown: Sequence[Line]) -> None:
    """Add one message to the tally of its room."""
    wanted = set(linked.reply_to) or {linked.message_id}
    tally.messages += 1
    tally.links += len(wanted)
    tally.hits += (predicted or linked.message_id) in wanted
    if answered := wanted - {linked.message_id}:
        tally.answering += 1
        tally.shown += not answered.isdisjoint(line.ref for line in shown)


def total(tallies: Iterable[Tally]) -> Tally:
    """Return the sum of the rooms."""
    whole = Tally()
    for tally in tallies:
        whole.messages += tally.messages
        whole.links += tally.links
        whole.hits += tally.hits
        whole.answering += tally.answering
        whole.shown += tally.shown
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    flags = argparse.ArgumentParser(description=__doc__, epilog="One JSON line a set to standard output.")
    flags.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="one set or a folder of sets")
    for name in ("--database-url", "--seed"):
        flags.add_argument(name, help="taken as by the other benchmarks of the archive; not needed here")
    flags.add_argument("--quick", action="store_true", help=f"the first {QUICK_LINKS} links of each set")
    options = flags.parse_args(arguments)
    try:
        for folder in sets(options.data):
            print(f"{folder.name}: reading and predicting", file=sys.stderr, flush=True)
            print(json.dumps(measure(folder, options.quick), ensure_ascii=False), flush=True)
    except Malformed as exc:
        print(exc, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
