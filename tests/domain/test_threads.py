"""What a line answers, in made-up talk of rooms that differ in pace, language and way of naming each other."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.threads import SHOWN_LINES, WINDOW_LINES, Line, context_window, predict_reply

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


class Talk:
    """A room; each line comes `pace` after the one before and has its place as its ref."""

    def __init__(self, pace: timedelta = timedelta(seconds=40)) -> None:
        self.lines: list[Line] = []
        self.pace = pace
        self.at = START

    def line(self, author: str, text: str, *, after: timedelta | None = None, **more: Any) -> Line:
        self.at += after or self.pace
        made = Line(
            ref=str(len(self.lines)),
            author=author,
            names=(author,),
            sent_at=self.at,
            text=text,
            **more,
        )
        self.lines.append(made)
        return made

    def say(self, *lines: tuple[str, str]) -> None:
        for author, text in lines:
            self.line(author, text)

    def answered(self, author: str, text: str, **more: Any) -> str | None:
        """Return the first word of what the next line answers."""
        message = self.line(author, text, **more)
        link = predict_reply(self.lines[:-1], message)
        return None if link.ref is None else self.lines[int(link.ref)].text.split(" ")[0]


def workshop() -> Talk:
    talk = Talk()
    talk.say(
        ("Mila", "Laser has been humming since this morning, anybody knows why?"),
        ("Tariq", "Seedlings are ready, who wants tomatoes?"),
        ("Olga", "Humming comes from the pump, it needs water"),
        ("Ben", "Tomatoes for me please, four of them"),
    )
    return talk


def test_a_stored_edge_decides_even_if_it_leads_out_of_the_window() -> None:
    talk = workshop()
    stored = talk.line("Mila", "Ben: thanks", reply_to="far-away")
    link = predict_reply(talk.lines[:-1], stored)
    assert (link.ref, link.score, link.inferred) == ("far-away", 1.0, False)


def test_whoever_is_addressed_is_answered() -> None:
    assert workshop().answered("Mila", "Olga: and how much of it?") == "Humming"
    assert workshop().answered("Tariq", "Ben, you can have six") == "Tomatoes"
    assert workshop().answered("Tariq", "you can have six @Ben") == "Tomatoes"


def test_names_are_known_without_their_accents_and_by_their_first_word() -> None:
    talk = Talk()
    for author, names, text in (
        ("u1", ("Jürgen Weiß",), "Schlüssel zum Lager hängt nicht am Brett"),
        ("u2", ("André",), "Quelqu'un a vu mon casque bleu ?"),
        ("u3", ("Zoë Lefèvre", "zoe"), "Farbe kommt erst am Freitag"),
    ):
        talk.lines.append(Line(ref=str(len(talk.lines)), author=author, names=names, sent_at=talk.at, text=text))
        talk.at += talk.pace
    assert talk.answered("u9", "Jurgen, ich habe ihn noch in der Tasche") == "Schlüssel"
    assert talk.answered("u8", "@andre il est dans la cuisine") == "Quelqu'un"
    assert talk.answered("u7", "danke @Zoë Lefèvre dann komme ich am Samstag") == "Farbe"


def test_a_mention_of_the_platform_counts_as_an_address() -> None:
    talk = workshop()
    assert talk.answered("Zora", "does it still?", mentions=frozenset({"Mila"})) == "Laser"


def test_the_beginning_of_a_name_is_enough_where_only_one_fits() -> None:
    assert workshop().answered("Mila", "olg: and how much?") == "Humming"


def test_who_answers_the_one_that_spoke_to_him_needs_no_name() -> None:
    talk = workshop()
    talk.line("Olga", "Mila: did you fill the tank?")
    talk.line("Ben", "Tariq: when do you come by?")
    assert talk.answered("Mila", "yes, yesterday") == "Mila:"


def test_two_who_talk_go_on_between_the_lines_of_others() -> None:
    talk = Talk()
    talk.say(
        ("Ines", "Carlos: la reunión es a las ocho"),
        ("Carlos", "Ines: perfecto, llevo las llaves"),
        ("Piet", "Wie heeft de ladder?"),
        ("Noor", "Piet: die staat buiten"),
    )
    assert talk.answered("Ines", "gracias, hasta luego") == "Ines:"


def test_a_speaker_goes_on_with_what_he_said() -> None:
    talk = workshop()
    talk.line("Zora", "I tried the new glue today,")
    assert talk.answered("Zora", "and it holds on glass as well") == "I"


def test_rare_words_that_are_shared_show_the_thread() -> None:
    assert workshop().answered("Zora", "the pump of the laser was new in spring") in ("Humming", "Laser")
    assert workshop().answered("Zora", "tomatoes and seedlings like it warm") in ("Tomatoes", "Seedlings")


def test_a_greeting_with_a_question_of_somebody_new_begins_a_thread() -> None:
    assert workshop().answered("Zora", "Hallo zusammen, wann macht ihr heute Abend auf?") is None


def test_a_slow_room_is_judged_by_its_own_pace() -> None:
    talk = Talk(pace=timedelta(days=2))
    talk.say(
        ("Mila", "The minutes of the assembly are on the wall now."),
        ("Olga", "Does anybody know a good dentist near the station?"),
    )
    assert talk.answered("Ben", "Dr Amsel is good, and near the station", after=timedelta(days=3)) == "Does"
    assert talk.answered("Olga", "Thank you Ben, I have a date on Monday", after=timedelta(days=1)) == "Dr"
    assert talk.answered("Tariq", "hello, is the projector free in May?", after=timedelta(days=9)) is None


@pytest.mark.parametrize(("word", "answers_him"), [("will", False), ("would", True)])
def test_a_name_that_others_say_as_a_word_is_no_address_inside_a_sentence(word: str, answers_him: bool) -> None:
    talk = Talk()
    talk.say(
        ("will", "Good morning from the garden"),
        *((f"p{number}", f"we {word} see about number {number}") for number in range(8)),
        ("Olga", "When is the roof repaired?"),
    )
    assert (talk.answered("Ben", "they asked will on Tuesday") == "Good") is answers_him


def test_lines_of_the_service_answer_nothing_and_are_not_answered() -> None:
    talk = workshop()
    joined = talk.line("Zora", "Zora has joined", service=True)
    assert predict_reply(talk.lines[:-1], joined).ref is None
    assert talk.answered("Ben", "welcome Zora") != "Zora"


def test_the_first_line_of_a_room_begins_a_thread() -> None:
    link = predict_reply([], workshop().lines[0])
    assert (link.ref, link.score, link.inferred) == (None, 1.0, True)


def chatter(talk: Talk, count: int) -> None:
    for number in range(count):
        talk.line(f"p{number % 4}", f"p{(number + 1) % 4}: so be it, number {number}")


def test_the_shown_lines_hold_the_latest_and_what_is_answered_far_above_them() -> None:
    talk = Talk()
    talk.line("Olga", "Who repairs the bellows of an accordion?")
    chatter(talk, 40)
    message = talk.line("Ben", "Olga: I know somebody for accordion bellows")
    shown = context_window(talk.lines[:-1], message)
    assert len(shown) == SHOWN_LINES and shown == sorted(shown, key=lambda line: int(line.ref))
    assert shown[0].ref == "0" and shown[-10:] == talk.lines[-11:-1]


def test_the_shown_lines_hold_what_the_answered_line_answered() -> None:
    talk = Talk()
    chatter(talk, 20)
    root = talk.line("Olga", "Bellows!")
    chatter(talk, 20)
    middle = talk.line("Mila", "Really?", reply_to=root.ref)
    chatter(talk, 30)
    message = talk.line("Zora", "Yes", reply_to=middle.ref)
    assert {root, middle} <= set(context_window(talk.lines[:-1], message))


def test_edges_that_go_round_are_not_followed_for_ever() -> None:
    talk = Talk()
    talk.line("Olga", "one", reply_to="1")
    talk.line("Mila", "two", reply_to="0")
    chatter(talk, 30)
    message = talk.line("Ben", "three", reply_to="1")
    assert {"0", "1"} & {line.ref for line in context_window(talk.lines[:-1], message)}


def test_a_limit_is_kept_and_nothing_is_left_out_below_it() -> None:
    talk = workshop()
    assert context_window(talk.lines[:-1], talk.lines[-1]) == talk.lines[:-1]
    assert len(context_window(talk.lines[:-1], talk.lines[-1], limit=1)) == 1
    assert context_window(talk.lines[:-1], talk.lines[-1], limit=0) == []


TEXTS = st.text(max_size=80) | st.sampled_from(["@", "@ @a b", ":", ",a", "a:", "\n:", "İ: ß?", "?", "@@@ :,", ""])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcd"), TEXTS, st.integers(-5, 90), st.booleans()), min_size=1, max_size=70))
def test_any_talk_gives_a_line_of_the_window_or_none(said: list[tuple[str, str, int, bool]]) -> None:
    talk = Talk()
    for author, text, seconds, service in said:
        talk.line(author, text, after=timedelta(seconds=seconds), service=service)
    window, message = talk.lines[:-1], talk.lines[-1]
    link = predict_reply(window, message)
    usable = [line.ref for line in window if not line.service][-WINDOW_LINES:]
    assert link.ref is None or link.ref in usable
    assert 0 < link.score <= 1 + 1e-9
    shown = [line.ref for line in context_window(window, message)]
    assert len(shown) <= SHOWN_LINES and shown == sorted(set(shown), key=int)
