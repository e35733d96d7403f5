"""Which stretch of time a sentence asks about, read from words and dates in five languages. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from core.domain.folding import folded
from core.domain.relative import weekday
from core.domain.timecalendar import Calendar
from core.domain.timephrases import NOTHING, Item, Phrases, Span
from core.domain.timewords import LANGUAGES, MONTH_NAMES, VAGUE, Language, Sort

_READ_CHARS = 1000
_RECENT = timedelta(days=30)
_PAST = timedelta(days=90)
_WHEN_WITHIN = 3
_TOKEN = re.compile(
    r"(?P<iso>(?<![\w-])\d{4}[-/]\d{1,2}[-/]\d{1,2}(?=[Tt]\d|(?![\w-])))"
    r"|(?P<dotted>(?<![\w.])\d{1,2}[./]\d{1,2}[./]\d{4}(?!\w|[./]\d))"
    r"|(?P<month>(?<![\w-])\d{4}-\d{2}(?![\w-]))"
    r"|(?P<quarter>(?<!\w)[QqTt][1-4](?!\w))"
    r"|(?P<number>(?<![\w.,:/-])\d{1,4}(?:(?:st|nd|rd|th|er|º|ª|-?го)(?!\w)|\.(?=\s+[^\W\d_])|(?![\w%€$]|[.,:/-]\d)))"
    r"|(?P<word>[^\W\d_]+)"
    r"|(?P<stop>[.!?;:\n\d])"
)
_TODAY_IN_FRENCH = re.compile(r"aujourd['’]hui", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """From `since` to before `until`, in UTC; None: open at that end. `vague`: it may only weigh, not filter."""

    since: datetime | None
    until: datetime | None
    vague: bool = False


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    word: str
    capital: bool


def parse_time(text: str, now: datetime, tz: ZoneInfo) -> TimeSpan | None:
    """Return the stretch of time that `text` asks about; None if it names none, or one that lies ahead.

    Days are local days of `tz`. What reaches beyond `now` is open at its end. The first exact stretch counts, else a
    vague one. A question that asks when something was names no time by that; a stretch beside it does.
    """
    calendar = Calendar(now, tz)
    tokens = _tokens(text[:_READ_CHARS])
    asks_when = False
    vague: TimeSpan | None = None
    for language, spoken in _by_likelihood(tokens):
        items = _items(tokens, language, spoken)
        asks_when = asks_when or any(Sort.WHEN in item.means for item in items[:_WHEN_WITHIN])
        for span in Phrases(items, calendar).spans():
            found = _bounded(span, calendar)
            if found is not None and not found.vague:
                return found
            vague = vague or found
        vague = vague or _vaguely(items, now)
    return None if asks_when else vague


def day_words(at: datetime, tz: tzinfo) -> str:
    """Return the local day of `at` in English: "7 May 2023, Sunday"."""
    local = at.astimezone(tz)
    return f"{local.day} {MONTH_NAMES[local.month - 1]} {local.year}, {weekday(local)}"


def _bounded(span: Span, calendar: Calendar) -> TimeSpan | None:
    now = calendar.now.astimezone(UTC)
    try:
        since = calendar.utc(span.start) if span.start is not None else None
        until = calendar.utc(span.end) if span.end is not None else None
    except (OverflowError, ValueError):
        return None
    if since is not None and since >= now:
        return None
    if until is not None and until >= now:
        until = None
    if since is None and until is None:
        return None
    return TimeSpan(since, until, span.vague) if since is None or until is None or since < until else None


def _vaguely(items: Sequence[Item], now: datetime) -> TimeSpan | None:
    kind = next((item.means[Sort.VAGUE] for item in items if Sort.VAGUE in item.means), None)
    if kind is None:
        return None
    at = now.astimezone(UTC)
    try:
        return TimeSpan(at - _RECENT, None, True) if VAGUE[kind] == "recent" else TimeSpan(None, at - _PAST, True)
    except OverflowError:
        return None


def _tokens(text: str) -> list[_Token]:
    text = _TODAY_IN_FRENCH.sub("aujourdhui", text)
    found = []
    for match in _TOKEN.finditer(text):
        word = match[0]
        found.append(_Token(match.lastgroup or "", folded(word), word[0].isupper()))
    return found


def _by_likelihood(tokens: Sequence[_Token]) -> list[tuple[Language, bool]]:
    """Return the languages, the likeliest first, each with whether the text seems to be in it."""
    words = [token.word for token in tokens]
    scores = {language.name: sum(word in language.common for word in words) for language in LANGUAGES}
    top = max(scores.values())
    ranked = sorted(LANGUAGES, key=lambda language: -scores[language.name])
    return [(language, 0 < top == scores[language.name]) for language in ranked]


def _items(tokens: Sequence[_Token], language: Language, spoken: bool) -> list[Item]:
    """Return the tokens as what they mean in a language, the longest phrases first; fillers are left out."""
    items: list[Item] = []
    at, opens = 0, True
    while at < len(tokens):
        token = tokens[at]
        if token.kind != "word":
            items.append(_literal(token))
            opens = token.kind == "stop"
            at += 1
            continue
        size, means = _phrase(tokens, at, language)
        if Sort.VAGUE in means and size > 1 and items and items[-1].counts:
            # "Years ago" is vague, but not after "four".
            size, means = 1, language.phrases.get((token.word,), {})
        if token.word in language.foreign and size == 1 and not spoken:
            means = {}
        if Sort.FILLER not in means:
            # "May" inside a sentence is the month; "may", and whatever begins a sentence, may be a verb.
            doubtful = token.word in language.doubtful and (opens or not token.capital)
            items.append(Item(means=means, doubtful=doubtful) if means else NOTHING)
        at, opens = at + size, False
    return items


def _phrase(tokens: Sequence[_Token], at: int, language: Language) -> tuple[int, Mapping[Sort, int]]:
    for size in range(min(language.longest, len(tokens) - at), 0, -1):
        means = language.phrases.get(tuple(token.word for token in tokens[at : at + size]))
        if means is not None:
            return size, means
    return 1, {}


def _literal(token: _Token) -> Item:
    numbers = [int(each) for each in _DIGITS.findall(token.word)]
    match token.kind:
        case "number":
            return Item(number=numbers[0])
        case "quarter":
            return Item(quarter=numbers[0])
        case "month" if 1 <= numbers[1] <= 12:
            return Item(month=(numbers[0], numbers[1]))
        case "iso":
            return Item(day=_date(*numbers))
        case "dotted":
            first, second, year = numbers
            if "/" in token.word and first != second and max(first, second) <= 12:
                # Half the world reads it as one day and half as another.
                return NOTHING
            month_first = "/" in token.word and second > 12
            return Item(day=_date(year, first, second) if month_first else _date(year, second, first))
    return NOTHING


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
