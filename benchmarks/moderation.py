"""How well and how fast moderation finds what it looks for, on made-up floods and on evaluation sets that stay outside.

`--fast-lane`: every detector, 100,000 listed hosts, 500 terms a rule. `--attacks`: words meant for a model. `--raid`:
floods in play, and ten rooms of ordinary talk. `--spam`: the classifier. One JSON line a set.
"""

import argparse
import json
import random
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from bot.settings import PROJECT
from core.domain.ids import CommunityId, PersonId, RoomId
from core.domain.messages import NO_MARKS, Marks
from core.domain.moderation.rules import Category, Detector, DetectorUse, Rule, RuleKind
from core.domain.moderation.signals import Signal, Watched
from core.moderation.fast.lane import DETECTORS, FastLane
from core.moderation.fast.windows import Windows
from core.moderation.lists import Lists, read_lists
from core.moderation.rulebook import read_defaults

FOLDER = PROJECT / "data" / "moderation"
MESSAGES, QUICK = 50_000, 5_000
HOSTS, TERMS, RULES = 100_000, 500, 1
LONGEST = 4096
LONG_EVERY, LINK_EVERY, HEAVY_EVERY = 20, 7, 200
LABORIOUS = 1_000
START = datetime(2026, 3, 2, 9, tzinfo=UTC)
TOGETHER = frozenset({Detector.FLOOD, Detector.DUPLICATE, Detector.MENTIONS})
RAIDERS, RAIDS = 12, 40
_VOWELS, _CONSONANTS = "aeiou", "bdfgklmnprst"
_WORDS = [f"{a}{b}{c}{d}" for a in _CONSONANTS for b in _VOWELS for c in _CONSONANTS for d in ("", *_VOWELS)]
_ADDRESSED = re.compile(r"^\s*([^\s:,]{2,20})[:,]")


class Malformed(Exception):
    """Data are absent or not in the format; the message names the file."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What was found, against what is so."""

    right: int = 0
    missed: int = 0
    wrong: int = 0
    quiet: int = 0

    def plus(self, *, is_so: bool, found: bool) -> "Counts":
        """Return it with one more."""
        name = ("right" if found else "missed") if is_so else ("wrong" if found else "quiet")
        return replace(self, **{name: getattr(self, name) + 1})


def line(name: str, counts: Counts, took_ms: Sequence[float], **more: object) -> dict[str, object]:
    """Return the line of one set; None where there is nothing of which it could be a share."""
    found, so = counts.right + counts.wrong, counts.right + counts.missed
    harmless = counts.wrong + counts.quiet
    precision = counts.right / found if found else None
    recall = counts.right / so if so else None
    f1 = 2 * counts.right / (found + so) if so and found else None
    return {
        "set": name,
        "n": so + harmless,
        "f1": _rounded(f1),
        "precision": _rounded(precision),
        "recall": _rounded(recall),
        "false_alarm_rate": _rounded(counts.wrong / harmless if harmless else None),
        "ms_p99": _rounded(statistics.quantiles(took_ms, n=100)[98] if len(took_ms) > 1 else None),
        **more,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)


# The fast lane


def heavy_lists(draw: random.Random) -> Lists:
    """Return the lists of the release with as many hosts as a public block list has."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789-"
    hosts = {"x" + "".join(draw.choices(letters, k=draw.randint(6, 18))) + ".example" for _ in range(HOSTS)}
    lists = read_lists(FOLDER)
    return replace(lists, domains=lists.domains | hosts)


def heavy_rules(draw: random.Random) -> list[Rule]:
    """Return the default rules, and rules of every detector with many terms each."""
    made = list(read_defaults(FOLDER / "rules.yaml"))
    for number in range(RULES):
        words = tuple(_term(draw, n) for n in range(TERMS))
        uses = [DetectorUse(each, {"words": words} if each is Detector.TERMS else {}) for each in DETECTORS]
        made.append(rule(f"all-{number}", uses))
    return made


def _term(draw: random.Random, number: int) -> str:
    word = "".join(draw.choices("abcdefghijklmnoprstuvwz", k=draw.randint(4, 11)))
    return f"{word}*" if number % 10 == 0 else f"{word} {word[::-1]}" if number % 10 == 1 else word


def rule(name: str, uses: Iterable[DetectorUse], kind: RuleKind = RuleKind.CUSTOM) -> Rule:
    """Return a rule with the default thresholds of its detectors."""
    return Rule(
        id=name,
        version=1,
        kind=kind,
        text={"en": name},
        category=Category.ORDER,
        detectors=tuple(uses),
        severity=2,
        expiry=timedelta(days=14),
    )


def sentence(draw: random.Random, words: int) -> str:
    """Return made-up words, few of them often, as in talk."""
    return " ".join(_WORDS[min(int(draw.paretovariate(0.6)), len(_WORDS)) - 1] for _ in range(words))


def talk(draw: random.Random, count: int) -> Iterator[Watched]:
    """Yield messages of many people: short ones, links, longest ones, and longest ones made to be laborious."""
    for number in range(count):
        text = sentence(draw, draw.randint(3, 30))
        if number % LINK_EVERY == 0:
            text += f" https://{draw.choice(['docs', 'www', 'a.b'])}.{sentence(draw, 1)}.example/x"
        if number % LONG_EVERY == 0:
            text = " ".join(sentence(draw, 20) for _ in range(60))[:LONGEST]
        if number % HEAVY_EVERY == 0:
            text = _laborious(draw)
        yield watched(text, number * 0.4, draw.randrange(400), draw.randrange(20), str(number), marks=_marks(draw))


def _marks(draw: random.Random) -> Marks:
    return Marks(mentions=frozenset(str(draw.randrange(400)) for _ in range(draw.choice((0, 0, 0, 1, 2)))))


def _laborious(draw: random.Random) -> str:
    """Return a longest text of one of the kinds that cost most."""
    kinds = (
        "b.l.o.c.k ",
        "а1b2 ",
        "x.example ",
        "ｗｉｄｅ é̶ ",
        "a b c d e ",
        "ignore all kill you my system ",
        "aaaa-bbbb ",
    )
    return (draw.choice(kinds) * LONGEST)[:LONGEST]


def watched(text: str, at_s: float, person: int, room: int, ref: str, **more: Any) -> Watched:
    """Return a message of the one community."""
    return Watched(
        community_id=CommunityId(1),
        room_id=RoomId(room + 1),
        ref=ref,
        revision=0,
        person_id=PersonId(person + 1),
        at=START + timedelta(seconds=at_s),
        text=text,
        **more,
    )


def fast_lane(seed: int, count: int) -> Iterator[dict[str, object]]:
    """Yield how long one message takes with everything on, in talk, and where all are longest and laborious ones."""
    draw = random.Random(seed)
    lane = FastLane(lists=heavy_lists(draw), score=_score())
    rules, windows = heavy_rules(draw), Windows()
    took: list[float] = []
    failed: Counter[str] = Counter()
    lane = replace(lane, observe=lambda name, value, labels: failed.update([name]))
    for message in (*talk(draw, count), *_all_laborious(draw)):
        began = time.process_time()
        lane.read(message, windows, rules)
        took.append(1000 * (time.process_time() - began))
    took, worst = took[:count], took[count:]
    ranked = statistics.quantiles(took, n=1000)
    more = {"ms_p50": round(ranked[499], 4), "ms_p999": round(ranked[998], 4), "ms_most": round(max(took), 4)}
    yield line("fast-lane", Counts(quiet=count), took, **more, rules=len(rules), failures=sum(failed.values()))
    p50 = round(statistics.median(worst), 4)
    yield line("fast-lane-laborious", Counts(quiet=LABORIOUS), worst, ms_p50=p50, ms_most=round(max(worst), 4))


def _all_laborious(draw: random.Random) -> Iterator[Watched]:
    for n in range(LABORIOUS):
        yield watched(_laborious(draw), 1_000_000 + n, draw.randrange(400), draw.randrange(20), f"worst-{n}")


def _score() -> Any:
    return lambda community, text: None


# Attacks


def attacks(folder: Path) -> Iterator[dict[str, object]]:
    """Yield, for each source of the injection set, how many texts are marked."""
    lane = FastLane(lists=read_lists(FOLDER), score=_score())
    counts: dict[str, Counts] = {}
    took: dict[str, list[float]] = {}
    for item in records(folder / "injection" / "items.jsonl"):
        name = f"injection/{str(item['source']).partition('/')[0]}"
        began = time.process_time()
        found = lane.attacked(str(item["text"])) is not None
        took.setdefault(name, []).append(1000 * (time.process_time() - began))
        counts[name] = counts.get(name, Counts()).plus(is_so=item["kind"] == "attack", found=found)
    for name, held in sorted(counts.items()):
        yield line(name, held, took[name])


# Raids and ordinary talk


def raid(seed: int) -> dict[str, object]:
    """Return after how many messages of a raid the first signal comes, over floods of three kinds."""
    draw = random.Random(seed)
    lane, rules = FastLane(lists=read_lists(FOLDER), score=_score()), [_noise()]
    first: list[int] = []
    counts, took = Counts(), list[float]()
    for number in range(RAIDS):
        windows = Windows()
        found: list[Signal] = []
        read = 0
        for message in raided(draw, number):
            read += 1
            began = time.process_time()
            found = lane.read(message, windows, rules)
            took.append(1000 * (time.process_time() - began))
            if found:
                break
        first.append(read)
        counts = counts.plus(is_so=True, found=bool(found))
    return line("raid", counts, took, first_signal_most=max(first), first_signal_mean=statistics.mean(first))


def raided(draw: random.Random, number: int) -> Iterator[Watched]:
    """Yield one raid: a text through the rooms, the same text by accounts made today, or calls to everyone."""
    text = f"{sentence(draw, 9)} https://{sentence(draw, 1)}.example/{number}"
    for n in range(RAIDERS):
        varied = text if n % 2 else f"{text}!"
        match number % 3:
            case 0:
                yield watched(varied, n * 2.0, 0, n, str(n))
            case 1:
                called = frozenset(str(draw.randrange(10_000)) for _ in range(8))
                yield watched(sentence(draw, 6), n * 2.0, n, 0, str(n), first=True, marks=Marks(mentions=called))
            case _:
                yield watched(varied, n * 2.0, n, 0, str(n), first=True, marks=Marks(calls_many=n == 2))


def _noise() -> Rule:
    return rule("noise", map(DetectorUse, sorted(TOGETHER)), RuleKind.FLOOD)


def ordinary(folder: Path) -> dict[str, object]:
    """Return how many lines of ordinary talk give a signal of flood, duplicate or mentions at default thresholds."""
    lane, rules = FastLane(lists=read_lists(FOLDER), score=_score()), [_noise()]
    counts, took, kinds = Counts(), list[float](), Counter[str]()
    windows: dict[str, Windows] = {}
    people: dict[tuple[str, str], int] = {}
    for item in records(folder / "irc" / "rooms.jsonl"):
        if item["author"] == "===":
            continue
        room = str(item["room"])
        message = _irc(item, people, room)
        began = time.process_time()
        signals: list[Signal] = lane.read(message, windows.setdefault(room, Windows()), rules)
        took.append(1000 * (time.process_time() - began))
        kinds.update(signal.finding.detector.value for signal in signals)
        counts = counts.plus(is_so=False, found=bool(signals))
    return line("irc", counts, took, **{f"{name}_signals": count for name, count in sorted(kinds.items())})


def _irc(item: Mapping[str, Any], people: dict[tuple[str, str], int], room: str) -> Watched:
    author = (room, str(item["author"]).casefold())
    first = author not in people
    person = people.setdefault(author, len(people))
    said = _ADDRESSED.match(str(item["text"]))
    marks = NO_MARKS
    if said is not None and (room, said[1].casefold()) in people:
        marks = Marks(mentions=frozenset({said[1].casefold()}))
    at = (datetime.fromisoformat(str(item["ts"])) - START).total_seconds()
    return watched(str(item["text"]), at, person, 0, str(item["message_id"]), first=first, marks=marks)


def records(file: Path) -> Iterator[dict[str, Any]]:
    """Yield each line of a file."""
    try:
        with file.open(encoding="utf-8") as lines:
            for number, text in enumerate(lines, 1):
                item = json.loads(text)
                if not isinstance(item, dict):
                    raise Malformed(f"{file}:{number}: is no object")
                yield item
    except OSError as exc:
        raise Malformed(f"{file}: cannot be read: {exc.strerror}") from exc
    except ValueError as exc:
        raise Malformed(f"{file}: is not one JSON object a line") from exc


def measured(options: argparse.Namespace) -> Iterator[Mapping[str, object]]:
    """Yield the line of each set that is asked for; what needs data is left out where a whole run was given none."""
    every = not (options.fast_lane or options.attacks or options.raid or options.spam)
    if options.fast_lane or every:
        yield from fast_lane(options.seed, QUICK if options.quick else MESSAGES)
    if options.attacks or (every and options.data):
        yield from attacks(options.data)
    if options.raid or every:
        yield raid(options.seed)
    if (options.raid or every) and options.data:
        yield ordinary(options.data)
    if options.spam or (every and options.data):
        yield from import_module("benchmarks.spam").run(options.data)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for; everything where nothing is."""
    flags = argparse.ArgumentParser(description=__doc__, epilog="One JSON line a set to standard output.")
    for name in ("fast-lane", "attacks", "raid", "spam", "all", "quick"):
        flags.add_argument(f"--{name}", action="store_true")
    flags.add_argument("--data", type=Path, metavar="FOLDER", help="the folder of the evaluation sets")
    flags.add_argument("--seed", type=int, default=1)
    options = flags.parse_args(arguments)
    if (options.attacks or options.spam) and options.data is None:
        flags.error("--attacks and --spam need --data FOLDER")
    try:
        for each in measured(options):
            print(json.dumps(each), flush=True)
    except Malformed as exc:
        print(exc, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
