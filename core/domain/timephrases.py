"""The grammar of expressions of time: which words and numbers in a row name which stretch. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum

from core.domain.timecalendar import Calendar, Stretch
from core.domain.timewords import PARTS, SEASONS, UNITS, Sort

_FIRST_YEAR = 1990
_LAST_YEAR = 2100
_FEW = 7
# "An hour ago" is taken half an hour wide to either side.
_ABOUT = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One word, number or date; `doubtful`: a month or season that may be an everyday word."""

    means: Mapping[Sort, int] = field(default_factory=dict)
    number: int | None = None
    quarter: int | None = None
    month: tuple[int, int] | None = None
    day: date | None = None
    doubtful: bool = False

    @property
    def counts(self) -> bool:
        """Whether it says how many."""
        return self.number is not None or not self.means.keys().isdisjoint({Sort.NUMBER, Sort.FEW})


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch that was named, open where None."""

    start: datetime | None
    end: datetime | None
    vague: bool = False


class Kind(StrEnum):
    """What names a point; it decides which words before it let it count."""

    EXACT = "exact"
    DATE = "date"
    MONTH = "month"
    YEAR = "year"
    WEEKDAY = "weekday"
    SEASON = "season"
    WEEKEND = "weekend"


@dataclass(frozen=True, slots=True)
class Point:
    """A stretch named by the items before `next`. `bare`: it counts only after a word such as "in" or "since"."""

    kind: Kind
    stretch: Stretch
    next: int
    bare: bool = False
    vague: bool = False
    year: int | None = None


_AFTER_IN = frozenset({Kind.EXACT, Kind.DATE, Kind.MONTH, Kind.YEAR, Kind.SEASON})
_AFTER_ON = frozenset({Kind.EXACT, Kind.DATE, Kind.WEEKDAY, Kind.WEEKEND})
_FUTURE_BY_HABIT = frozenset({Kind.WEEKDAY, Kind.WEEKEND})


NOTHING = Item()
"""What every word is that says nothing of time."""
_ALONE = frozenset(
    {Sort.MONTH, Sort.WEEKDAY, Sort.UNIT, Sort.DAY, Sort.PART, Sort.LAST_NIGHT, Sort.SEASON, Sort.LAST, Sort.THIS}
)


class Phrases:
    """What a row of items says about time."""

    def __init__(self, items: Sequence[Item], calendar: Calendar) -> None:
        self._items = items
        self._calendar = calendar

    def spans(self) -> Iterator[Span]:
        """Yield every stretch that is named, in order; none that no calendar has."""
        at = 0
        while at < len(self._items):
            if self._items[at] is NOTHING:
                at += 1
                continue
            try:
                found = self._between(at) or self._bounded(at) or self._plain(at)
            except (OverflowError, ValueError):
                found = None
            if found is None:
                at += 1
            else:
                span, at = found
                yield span

    # Whole expressions

    def _between(self, at: int) -> tuple[Span, int] | None:
        for opening, middle in ((Sort.BETWEEN, Sort.AND), (Sort.FROM, Sort.TO)):
            if self._means(at, opening) is None:
                continue
            first = self._point(at + 1) or self._day_of_later_month(at + 1)
            if first is None or self._means(first.next, middle) is None:
                continue
            last = self._point(first.next + 1)
            if last is None or last.vague:
                continue
            if first.year is None:
                year = last.year or last.stretch.start.year
                first = self._point(at + 1, year) or self._day_of_later_month(at + 1, last) or first
                if self._calendar.utc(first.stretch.start) > self._calendar.utc(last.stretch.start):
                    first = self._point(at + 1, year - 1) or first
            return Span(first.stretch.start, last.stretch.end), last.next
        return None

    def _day_of_later_month(self, at: int, last: Point | None = None) -> Point | None:
        """Return the 3 of "between 3 and 7 May"."""
        number = self._item(at).number
        if number is None or not 1 <= number <= 31:
            return None
        ends = last.stretch.start.date() if last is not None and last.kind is Kind.DATE else self._calendar.today
        day = date(ends.year, ends.month, number) if last is not None else ends
        return Point(Kind.DATE, self._calendar.day(day), at + 1)

    def _bounded(self, at: int) -> tuple[Span, int] | None:
        means = self._item(at).means
        if not means.keys() & {Sort.SINCE, Sort.AFTER, Sort.BEFORE, Sort.UNTIL}:
            return None
        point = self._point(self._past(at + 1))
        if point is None:
            return None
        # "Before three days" is no time, but "vor drei Tagen" is one: that reading comes first.
        if Sort.AGO_FIRST in means and (ago := self._ago_first(at)) is not None:
            return Span(ago.stretch.start, ago.stretch.end, ago.vague), ago.next
        start, end = point.stretch.start, point.stretch.end
        if Sort.SINCE in means:
            return Span(start, None, point.vague), point.next
        if Sort.AFTER in means:
            return Span(end, None, point.vague), point.next
        if point.kind in _FUTURE_BY_HABIT or self._ahead(point.stretch):
            return None
        return Span(None, start if Sort.BEFORE in means and Sort.UNTIL not in means else end, point.vague), point.next

    def _plain(self, at: int) -> tuple[Span, int] | None:
        means = self._item(at).means
        point: Point | None = None
        if Sort.IN in means or Sort.ON in means:
            allowed = (_AFTER_IN if Sort.IN in means else frozenset()) | (
                _AFTER_ON if Sort.ON in means else frozenset()
            )
            point = self._point(self._past(at + 1))
            point = point if point is not None and (point.kind in allowed or not point.bare) else None
        if point is None:
            point = self._point(at)
            point = point if point is not None and not point.bare else None
        if point is None:
            return None
        return Span(point.stretch.start, point.stretch.end, point.vague), point.next

    # Points

    def _point(self, at: int, year: int | None = None) -> Point | None:
        """Return what is named from `at` on; `year` is taken where none is said."""
        item = self._item(at)
        if item is NOTHING or (item.means and self._item(at + 1) is NOTHING and _ALONE.isdisjoint(item.means)):
            return None
        readings: tuple[Callable[[], Point | None], ...] = (
            lambda: self._literal(at),
            lambda: self._date(at, year),
            lambda: self._quarter(at, year),
            lambda: self._ago_first(at),
            lambda: self._ago(at),
            lambda: self._rolling(at),
            lambda: self._relative(at),
            lambda: self._day(at),
            lambda: self._month(at, year),
            lambda: self._season(at, year),
            lambda: self._single(at),
        )
        return next((point for reading in readings if (point := reading()) is not None), None)

    def _literal(self, at: int) -> Point | None:
        item = self._item(at)
        if item.day is not None and item.day.year >= _FIRST_YEAR:
            return Point(Kind.EXACT, self._calendar.day(item.day), at + 1, year=item.day.year)
        if item.month is not None and item.month[0] >= _FIRST_YEAR:
            return Point(Kind.EXACT, self._calendar.month(*item.month), at + 1, year=item.month[0])
        return None

    def _date(self, at: int, year: int | None) -> Point | None:
        """Return "7 May", "May 7", "first of May", each with or without a year."""
        if (month := self._means(at, Sort.MONTH)) is not None:
            place, day = at, self._day_number(at + 1)
            after = at + 2
        else:
            place, day = self._past(at + 1), self._day_number(at)
            month, after = self._means(place, Sort.MONTH), place + 1
        if month is None or day is None:
            return None
        said = self._year(self._past(after))
        chosen = said or year
        first = date(chosen or self._calendar.today.year, month, 1)
        if chosen is None and first + timedelta(days=day - 1) > self._calendar.today:
            first = first.replace(year=first.year - 1)
        end = self._past(after) + 1 if said else after
        bare = self._item(place).doubtful and said is None
        return Point(Kind.DATE, self._calendar.day(first.replace(day=day)), end, bare, year=said)

    def _month(self, at: int, year: int | None) -> Point | None:
        month = self._means(at, Sort.MONTH)
        if month is None:
            return None
        place = self._past(at + 1)
        said = self._year(place)
        today = self._calendar.today
        chosen = said or year or (today.year if month <= today.month else today.year - 1)
        end = place + 1 if said else at + 1
        return Point(Kind.MONTH, self._calendar.month(chosen, month), end, said is None, year=said)

    def _quarter(self, at: int, year: int | None) -> Point | None:
        quarter, end = self._item(at).quarter, at + 1
        if quarter is None and self._unit(at + 1) == "quarter":
            number = self._means(at, Sort.ORDINAL) or self._item(at).number
            quarter, end = (number if number is not None and 1 <= number <= 4 else None), at + 2
        if quarter is None:
            return None
        said = self._year(self._past(end))
        if said is not None:
            end = self._past(end) + 1
        today = self._calendar.today
        chosen = said or year or (today.year if quarter <= (today.month + 2) // 3 else today.year - 1)
        return Point(Kind.MONTH, self._calendar.quarter(chosen, quarter), end, said is None, year=said)

    def _season(self, at: int, year: int | None) -> Point | None:
        number = self._means(at, Sort.SEASON)
        if number is None:
            return None
        place = self._past(at + 1)
        said = self._year(place)
        if said is None and self._item(at).doubtful:
            return None
        chosen = said or year
        calendar, season = self._calendar, SEASONS[number]
        stretch = calendar.season(chosen, season) if chosen else calendar.latest_season(season, ended=False)
        return Point(Kind.SEASON, stretch, place + 1 if said else at + 1, said is None, year=said)

    def _ago(self, at: int) -> Point | None:
        """Return "three days ago"; without a number it is one."""
        count, place, few = self._count(at)
        unit = self._unit(place)
        if unit is None or self._means(place + 1, Sort.AGO) is None:
            return None
        return self._so_long_ago(unit, count, few, place + 2)

    def _ago_first(self, at: int) -> Point | None:
        if self._means(at, Sort.AGO_FIRST) is None:
            return None
        count, place, few = self._count(at + 1)
        unit = self._unit(place)
        return None if unit is None or place == at + 1 else self._so_long_ago(unit, count, few, place + 1)

    def _so_long_ago(self, unit: str, count: int, few: bool, end: int) -> Point | None:
        calendar = self._calendar
        if few:
            stretch = Stretch(calendar.before(unit, _FEW), calendar.before(unit, 1))
            return Point(Kind.EXACT, stretch, end, vague=True)
        whole = calendar.unit(unit, count)
        if whole is None:
            whole = Stretch(calendar.before(unit, count * (1 + _ABOUT)), calendar.before(unit, count * (1 - _ABOUT)))
        return Point(Kind.EXACT, whole, end)

    def _rolling(self, at: int) -> Point | None:
        """Return "last three days", "trois derniers jours", "in the last hour": up to now."""
        leads = self._means(at, Sort.LAST) is not None
        count, place, few = self._count(at + 1 if leads else at)
        if not leads:
            if place == at or self._means(place, Sort.LAST) is None:
                return None
            place += 1
        unit = self._unit(place)
        if unit is None or (place == at + 1 and unit != "hour"):
            return None
        return Point(Kind.EXACT, self._calendar.rolling(unit, _FEW if few else count), place + 1, vague=few)

    def _relative(self, at: int) -> Point | None:
        """Return "last week", "semaine dernière", "this May", "dieser Sommer", "last night", "this morning"."""
        if self._means(at, Sort.LAST) is not None:
            place, end, last = at + 1, at + 2, True
        elif self._means(at, Sort.THIS) is not None:
            place, end, last = at + 1, at + 2, False
        elif self._means(at + 1, Sort.LAST) is not None:
            place, end, last = at, at + 2, True
        else:
            return None
        item, calendar, today = self._item(place), self._calendar, self._calendar.today
        stretch: Stretch | None = None
        if (number := item.means.get(Sort.PART)) is not None:
            stretch = calendar.part(today, PARTS[number]) if not last else calendar.last_night() if number > 1 else None
        elif (unit := self._unit(place)) is not None:
            stretch = calendar.unit(unit, int(last)) if unit != "day" else None
            if unit == "weekend" and last and today.weekday() < 5:
                stretch = calendar.unit(unit, 1)
        elif (number := item.means.get(Sort.WEEKDAY)) is not None and last:
            stretch = calendar.weekday(number)
        elif (number := item.means.get(Sort.MONTH)) is not None and not item.doubtful:
            stretch = calendar.month(today.year - int(last and number >= today.month), number)
        elif (number := item.means.get(Sort.SEASON)) is not None:
            stretch = (
                calendar.latest_season(SEASONS[number], ended=True) if last else calendar.this_season(SEASONS[number])
            )
        return Point(Kind.EXACT, stretch, end) if stretch is not None else None

    def _day(self, at: int) -> Point | None:
        if self._means(at, Sort.LAST_NIGHT) is not None:
            return Point(Kind.EXACT, self._calendar.last_night(), at + 1)
        back = self._means(at, Sort.DAY)
        if back is None:
            return None
        calendar = self._calendar
        day = calendar.today - timedelta(days=back)
        part = self._means(at + 1, Sort.PART)
        if part is None:
            return Point(Kind.EXACT, self._calendar.day(day), at + 1)
        return Point(Kind.EXACT, calendar.part(day, PARTS[part]), at + 2)

    def _single(self, at: int) -> Point | None:
        """Return a year, a weekday or a weekend: each counts only after a word that makes it a time."""
        calendar = self._calendar
        place = at + 1 if self._unit(at) == "year" else at
        if (year := self._year(place)) is not None:
            stretch = calendar.days(date(year, 1, 1), date(year + 1, 1, 1))
            return Point(Kind.YEAR, stretch, place + 1, bare=True, year=year)
        if (number := self._means(at, Sort.WEEKDAY)) is not None:
            if self._item(at + 1).means.keys() & {Sort.BEFORE, Sort.AFTER}:
                # "The Sunday before 7 May": what follows says when.
                return None
            stretch = calendar.weekday(number)
            part = self._means(at + 1, Sort.PART)
            if part is not None:
                stretch = calendar.part(stretch.start.date(), PARTS[part])
            return Point(Kind.WEEKDAY, stretch, at + 1 + int(part is not None), bare=True)
        if self._unit(at) == "weekend":
            weekend = calendar.unit("weekend", int(calendar.today.weekday() < 5))
            return Point(Kind.WEEKEND, weekend, at + 1, bare=True) if weekend is not None else None
        return None

    # Small questions

    def _item(self, at: int) -> Item:
        return self._items[at] if at < len(self._items) else NOTHING

    def _means(self, at: int, sort: Sort) -> int | None:
        return self._item(at).means.get(sort)

    def _past(self, at: int) -> int:
        """Return the place behind what says more elsewhere: "7 de mayo de 2023", "desde el viernes"."""
        return at + 1 if self._item(at).means.keys() & {Sort.FROM, Sort.ON} else at

    def _unit(self, at: int) -> str | None:
        number = self._means(at, Sort.UNIT)
        return UNITS[number] if number is not None else None

    def _year(self, at: int) -> int | None:
        number = self._item(at).number
        return number if number is not None and _FIRST_YEAR <= number <= _LAST_YEAR else None

    def _day_number(self, at: int) -> int | None:
        number = self._item(at).number or self._means(at, Sort.ORDINAL)
        return number if number is not None and 1 <= number <= 31 else None

    def _count(self, at: int) -> tuple[int, int, bool]:
        """Return how many, the place behind, and whether it was "a few"; one where no number stands."""
        few = self._means(at, Sort.FEW) is not None or (
            self._means(at, Sort.NUMBER) == 1 and self._means(at + 1, Sort.FEW) is not None
        )
        if few:
            return _FEW, at + 1 + int(self._means(at, Sort.FEW) is None), True
        number = self._item(at).number or self._means(at, Sort.NUMBER)
        return (number, at + 1, False) if number is not None else (1, at, False)

    def _ahead(self, stretch: Stretch) -> bool:
        return self._calendar.utc(stretch.start) > self._calendar.now
