"""Times in questions: five languages, one local calendar, and many sentences that name no time at all."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.timeexpr import TimeSpan, day_words, parse_time
from core.domain.timewords import LANGUAGES

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2023, 8, 16, 14, 30, tzinfo=UTC)
"""A Wednesday, 16:30 in Berlin."""


def days(text: str, now: datetime = NOW, tz: ZoneInfo = BERLIN) -> str | None:
    """Return the local days of an exact stretch: "first..last", open where nothing stands."""
    found = parse_time(text, now, tz)
    if found is None or found.vague:
        return None
    first = f"{found.since.astimezone(tz):%Y-%m-%d}" if found.since else ""
    last = f"{(found.until - timedelta(microseconds=1)).astimezone(tz):%Y-%m-%d}" if found.until else ""
    return f"{first}..{last}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("what happened yesterday?", "2023-08-15..2023-08-15"),
        ("what did we say today", "2023-08-16.."),
        ("the day before yesterday someone left a drill", "2023-08-14..2023-08-14"),
        ("who came last week", "2023-08-07..2023-08-13"),
        ("this week's plan", "2023-08-14.."),
        ("what was decided last month", "2023-07-01..2023-07-31"),
        ("what was decided this month", "2023-08-01.."),
        ("what was bought last year", "2022-01-01..2022-12-31"),
        ("what did Olga plan in May", "2023-05-01..2023-05-31"),
        ("what did Olga plan in October?", "2022-10-01..2022-10-31"),
        ("what did Olga plan in may 2021", "2021-05-01..2021-05-31"),
        ("early May 2023", "2023-05-01..2023-05-31"),
        ("who was here on 2023-05-07?", "2023-05-07..2023-05-07"),
        ("who was here on 7.5.2023", "2023-05-07..2023-05-07"),
        ("who was here on 25/12/2022 or so", "2022-12-25..2022-12-25"),
        ("anything from 2023-05?", "2023-05-01..2023-05-31"),
        ("who was here on 7 May 2023", "2023-05-07..2023-05-07"),
        ("who was here on May 7th, 2023", "2023-05-07..2023-05-07"),
        ("the 7th of May was warm", "2023-05-07..2023-05-07"),
        ("notes of December 24", "2022-12-24..2022-12-24"),
        ("three days ago", "2023-08-13..2023-08-13"),
        ("where did she live 4 years ago", "2019-01-01..2019-12-31"),
        ("what was shown on the Sunday before 3 May 2023", "..2023-05-02"),
        ("a week ago somebody asked", "2023-08-07..2023-08-13"),
        ("2 months ago", "2023-06-01..2023-06-30"),
        ("what was said this morning", "2023-08-16..2023-08-16"),
        ("who was loud last night", "2023-08-15..2023-08-16"),
        ("everything since Friday", "2023-08-11.."),
        ("what did Ben say on Friday", "2023-08-11..2023-08-11"),
        ("what did Ben say last Wednesday", "2023-08-09..2023-08-09"),
        ("since 2021", "2021-01-01.."),
        ("before 2021", "..2020-12-31"),
        ("after May 2023", "2023-06-01.."),
        ("between March and May 2022", "2022-03-01..2022-05-31"),
        ("between november and february", "2022-11-01..2023-02-28"),
        ("from 3 to 7 May", "2023-05-03..2023-05-07"),
        ("from Monday to Tuesday", "2023-08-14..2023-08-15"),
        ("figures of Q2 2022", "2022-04-01..2022-06-30"),
        ("in the second quarter of 2022", "2022-04-01..2022-06-30"),
        ("last quarter", "2023-04-01..2023-06-30"),
        ("what happened last weekend", "2023-08-12..2023-08-13"),
        ("who was there at the weekend", "2023-08-12..2023-08-13"),
        ("the party last summer", "2022-06-01..2022-08-31"),
        ("this spring", "2023-03-01..2023-05-31"),
        ("in winter 2021", "2021-12-01..2022-02-28"),
        ("the last three days", "2023-08-13.."),
        ("When did we fix the pump, was it last week?", "2023-08-07..2023-08-13"),
    ],
)
def test_english_stretches(text: str, expected: str) -> None:
    assert days(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Was hat Jürgen gestern gesagt?", "2023-08-15..2023-08-15"),
        ("vorgestern Abend", "2023-08-14..2023-08-14"),
        ("wer war letzte Woche hier", "2023-08-07..2023-08-13"),
        ("was war im März", "2023-03-01..2023-03-31"),
        ("am 7. Mai 2023", "2023-05-07..2023-05-07"),
        ("vor drei Tagen", "2023-08-13..2023-08-13"),
        ("vor einem Jahr", "2022-01-01..2022-12-31"),
        ("vor Mai 2022", "..2022-04-30"),
        ("heute morgen", "2023-08-16..2023-08-16"),
        ("seit Freitag", "2023-08-11.."),
        ("zwischen März und Mai", "2023-03-01..2023-05-31"),
        ("im zweiten Quartal 2022", "2022-04-01..2022-06-30"),
        ("am letzten Wochenende", "2023-08-12..2023-08-13"),
        ("letzten Sommer", "2022-06-01..2022-08-31"),
        ("in den letzten zwei Wochen", "2023-08-02.."),
        ("qu'a dit André hier ?", "2023-08-15..2023-08-15"),
        ("hier soir", None),
        ("qu'est-ce que tu as dit hier soir ?", "2023-08-15..2023-08-15"),
        ("la semaine dernière", "2023-08-07..2023-08-13"),
        ("qui est venu aujourd’hui", "2023-08-16.."),
        ("en mai 2022", "2022-05-01..2022-05-31"),
        ("le 1er mai 2023", "2023-05-01..2023-05-01"),
        ("il y a trois jours", "2023-08-13..2023-08-13"),
        ("depuis vendredi", "2023-08-11.."),
        ("entre mars et mai 2022", "2022-03-01..2022-05-31"),
        ("les trois derniers jours", "2023-08-13.."),
        ("l'été dernier", "2022-06-01..2022-08-31"),
        ("¿qué dijo Ana ayer?", "2023-08-15..2023-08-15"),
        ("la semana pasada", "2023-08-07..2023-08-13"),
        ("el 7 de mayo de 2023", "2023-05-07..2023-05-07"),
        ("hace tres días", "2023-08-13..2023-08-13"),
        ("desde el viernes", "2023-08-11.."),
        ("entre marzo y mayo de 2022", "2022-03-01..2022-05-31"),
        ("quién habló anoche", "2023-08-15..2023-08-16"),
        ("el verano pasado", "2022-06-01..2022-08-31"),
        ("что сказала Аня вчера?", "2023-08-15..2023-08-15"),
        ("на прошлой неделе", "2023-08-07..2023-08-13"),
        ("в мае 2022 года", "2022-05-01..2022-05-31"),
        ("7 мая 2023", "2023-05-07..2023-05-07"),
        ("три дня назад", "2023-08-13..2023-08-13"),
        ("неделю назад", "2023-08-07..2023-08-13"),
        ("с пятницы", "2023-08-11.."),
        ("в пятницу", "2023-08-11..2023-08-11"),
        ("между мартом", None),
        ("с марта по май 2022", "2022-03-01..2022-05-31"),
        ("прошлым летом", "2022-06-01..2022-08-31"),
    ],
)
def test_stretches_of_other_languages(text: str, expected: str | None) -> None:
    assert days(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "may I ask something?",
        "May I come in? May 7 people come?",
        "this may be wrong",
        "you may 3 times press it",
        "we march to the sea, march 5 miles, mar the wood",
        "wait a second, the second one",
        "the sun is out and so is Mai",
        "August is a good cook and April sings",
        "in a minute, at last",
        "a quarter of the people",
        "half past 3",
        "the fall hurt, and the spring is bent",
        "Friday is fish",
        "on mondays",
        "version 3.11.2 of 10.0.0.1 costs 2000 or 12/03/2023",
        "call 2023-99-99 or 31.02.2023",
        "see you tomorrow, next week or next friday",
        "in 2 weeks, until Friday, by monday",
        "in 2031 or on 2 May 2040",
        "ist er hier oder am Tisch?",
        "er kommt morgen vor dem Essen nach Hause",
        "il y a deux chats, un sept et un an",
        "mañana por la tarde, el mar y la luna",
        "до дома с друзьями и в лес",
        "When did Olga sell her boat?",
        "Wann hat Olga neulich ihr Boot verkauft?",
        "when did she recently sell it?",
        "",
    ],
)
def test_what_names_no_time_that_has_been_gives_none(text: str) -> None:
    assert parse_time(text, NOW, BERLIN) is None


@pytest.mark.parametrize(
    ("text", "recent"),
    [
        ("what did Olga say recently", True),
        ("who lived here back then", False),
        ("years ago you told me", False),
        ("was war neulich los", True),
        ("wer hat damals hier gewohnt", False),
        ("qui est venu récemment", True),
        ("qué pasó últimamente", True),
        ("что было недавно", True),
        ("a few days ago", True),
        ("vor ein paar Tagen", True),
    ],
)
def test_a_vague_time_only_weighs(text: str, recent: bool) -> None:
    found = parse_time(text, NOW, BERLIN)
    assert found is not None and found.vague
    assert (found.since is not None) is recent


def test_an_exact_time_goes_before_a_vague_one() -> None:
    assert days("recently, I mean in June") == "2023-06-01..2023-06-30"


@pytest.mark.parametrize(
    ("day", "hours"), [(date(2023, 3, 26), 23), (date(2023, 10, 29), 25), (date(2023, 10, 30), 24)]
)
def test_a_day_is_as_long_as_it_is_there(day: date, hours: int) -> None:
    found = parse_time(f"on {day.isoformat()}", datetime(2023, 12, 1, tzinfo=UTC), BERLIN)
    assert found is not None and found.since is not None and found.until is not None
    assert found.until - found.since == timedelta(hours=hours)


def test_days_are_those_of_the_place() -> None:
    late = datetime(2023, 8, 16, 23, 30, tzinfo=UTC)
    assert days("yesterday", late, ZoneInfo("Asia/Tokyo")) == "2023-08-16..2023-08-16"
    assert days("yesterday", late, ZoneInfo("America/Lima")) == "2023-08-15..2023-08-15"


def test_an_hour_ago_is_a_stretch_around_it() -> None:
    at = NOW - timedelta(hours=2)
    assert parse_time("2 hours ago", NOW, BERLIN) == TimeSpan(at - timedelta(hours=1), at + timedelta(hours=1))


def test_a_night_that_has_just_ended_is_this_night() -> None:
    morning = datetime(2023, 8, 16, 5, 0, tzinfo=UTC)
    assert days("wer war heute Nacht da", morning) == "2023-08-15..2023-08-16"
    assert days("wer war heute Nacht da") is None


def test_a_day_is_said_in_words() -> None:
    at = datetime(2023, 5, 6, 22, 30, tzinfo=UTC)
    assert day_words(at, BERLIN) == "7 May 2023, Sunday"
    assert day_words(at, ZoneInfo("UTC")) == "6 May 2023, Saturday"


WORDS = sorted({" ".join(phrase) for language in LANGUAGES for phrase in language.phrases})
SCRAPS = st.sampled_from(
    [*WORDS, "2023", "7", "31", "999", "9999", "7.", "2023-05-07", "30.02.2023", "q3", ".", "May", "x"]
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(SCRAPS | st.text(max_size=6), max_size=12).map(" ".join),
    st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC)),
    st.sampled_from([BERLIN, ZoneInfo("America/Santiago"), ZoneInfo("Pacific/Kiritimati")]),
)
def test_any_text_gives_a_stretch_that_has_been_or_none(text: str, now: datetime, tz: ZoneInfo) -> None:
    found = parse_time(text, now, tz)
    if found is not None:
        assert found.since is not None or found.until is not None
        assert found.since is None or found.since < (found.until or now)
        assert found.until is None or found.until < now


@pytest.mark.parametrize("scrap", ["between ", "7 ", "last ", "a.", "2023-"])
def test_hostile_repetition_is_read_only_in_part(scrap: str) -> None:
    assert parse_time(scrap * 200_000, NOW, BERLIN) == parse_time((scrap * 1000)[:1000], NOW, BERLIN)
