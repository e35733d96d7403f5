"""Days, weeks, seasons and parts of days as stretches of local time, seen from one moment. Pure."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

_HOURS = {"morning": (4, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (20, 30)}
_LAST_NIGHT_HOURS = (18, 30)
_SEASON_MONTHS = {"spring": 3, "summer": 6, "autumn": 9, "winter": 12}
_SATURDAY = 5
_NOON = 12


@dataclass(frozen=True, slots=True)
class Stretch:
    """From `start` to before `end`: local times without a zone, or exact ones with one."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Calendar:
    """The calendar of `tz` at `now`; weeks begin on Monday, seasons are those of the north.

    Every method may raise OverflowError or ValueError for days that no calendar has.
    """

    now: datetime
    tz: ZoneInfo

    @property
    def local(self) -> datetime:
        """Return now by the clock on the wall, without a zone."""
        return self.now.astimezone(self.tz).replace(tzinfo=None)

    @property
    def today(self) -> date:
        """Return the local day."""
        return self.local.date()

    def utc(self, at: datetime) -> datetime:
        """Return a local time in UTC; of an hour that comes twice the first."""
        return (at if at.tzinfo is not None else at.replace(tzinfo=self.tz)).astimezone(UTC)

    def day(self, day: date) -> Stretch:
        """Return one day."""
        return self.days(day, day + timedelta(days=1))

    def days(self, first: date, end: date) -> Stretch:
        """Return the days from `first` to before `end`."""
        return Stretch(datetime.combine(first, time()), datetime.combine(end, time()))

    def month(self, year: int, month: int) -> Stretch:
        """Return a month; `month` may lie outside 1 to 12 and then counts into other years."""
        return self.days(_first_of(year, month), _first_of(year, month + 1))

    def quarter(self, year: int, quarter: int) -> Stretch:
        """Return a quarter, 1 to 4, or beyond as with months."""
        return self.days(_first_of(year, 3 * quarter - 2), _first_of(year, 3 * quarter + 1))

    def season(self, year: int, season: str) -> Stretch:
        """Return a season; winter begins in the December of its year."""
        first = _SEASON_MONTHS[season]
        return self.days(_first_of(year, first), _first_of(year, first + 3))

    def latest_season(self, season: str, *, ended: bool) -> Stretch:
        """Return the latest such season that has begun or, if asked for, ended."""
        seasons = [self.season(self.today.year - back, season) for back in range(3)]
        return next(each for each in seasons if (each.end if ended else each.start) <= self.local)

    def this_season(self, season: str) -> Stretch:
        """Return the season that is now, or the one of this year."""
        begun = self.latest_season(season, ended=False)
        return begun if begun.end > self.local else self.season(self.today.year, season)

    def weekday(self, number: int) -> Stretch:
        """Return the latest such day before today; Monday is 0."""
        back = (self.today.weekday() - number - 1) % 7 + 1
        return self.day(self.today - timedelta(days=back))

    def part(self, day: date, part: str) -> Stretch:
        """Return a part of a day; its night ends in the next morning, and today's, before noon, has just ended."""
        back = int(part == "night" and day == self.today and self.local.hour < _NOON)
        return _hours(day - timedelta(days=back), _HOURS[part])

    def last_night(self) -> Stretch:
        """Return the evening and night before this morning."""
        return _hours(self.today - timedelta(days=1), _LAST_NIGHT_HOURS)

    def unit(self, unit: str, back: int) -> Stretch | None:
        """Return the whole unit of the calendar that lies `back` before the present one; None for hours and less."""
        today = self.today
        match unit:
            case "day":
                return self.day(today - timedelta(days=back))
            case "week":
                monday = today - timedelta(days=today.weekday() + 7 * back)
                return self.days(monday, monday + timedelta(days=7))
            case "weekend":
                # The present one is the one that has begun, or else the next.
                saturday = today + timedelta(days=_SATURDAY - today.weekday() - 7 * back)
                return self.days(saturday, saturday + timedelta(days=2))
            case "month":
                return self.month(today.year, today.month - back)
            case "quarter":
                return self.quarter(today.year, (today.month + 2) // 3 - back)
            case "year":
                return self.days(date(today.year - back, 1, 1), date(today.year - back + 1, 1, 1))
        return None

    def rolling(self, unit: str, count: int) -> Stretch:
        """Return the last `count` units up to now."""
        return Stretch(self.before(unit, count), self.now)

    def before(self, unit: str, count: float) -> datetime:
        """Return the moment so many units ago; months and years by their mean length."""
        return self.now.astimezone(UTC) - count * _LENGTHS[unit]


_LENGTHS = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "weekend": timedelta(days=7),
    "month": timedelta(days=30.44),
    "quarter": timedelta(days=91.31),
    "year": timedelta(days=365.25),
}


def _first_of(year: int, month: int) -> date:
    return date(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)


def _hours(day: date, hours: tuple[int, int]) -> Stretch:
    midnight = datetime.combine(day, time())
    return Stretch(midnight + timedelta(hours=hours[0]), midnight + timedelta(hours=hours[1]))
