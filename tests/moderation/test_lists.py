"""Lists: read whole or refused, compared before one is replaced, and not changed much without somebody's word."""

import shutil
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from core.domain.errors import InputRejected, Misconfigured
from core.domain.moderation.rule_file import read_rule, written
from core.domain.moderation.rules import HINTS, Detector, Level, RuleKind, StepKind
from core.moderation.lists import ListChange, accept, compare, read_list, read_lists
from core.moderation.rulebook import read_defaults
from tests.moderation.watching import DATA, LISTS

AT = datetime(2026, 5, 4, tzinfo=UTC)
TEN = b"".join(b"host%d.example\n" % n for n in range(10))
ALL = ["scam_domains.txt", "shorteners.yaml", "brands.yaml", "attachments.yaml", "staff_words.txt", "terms/en.txt",
       "terms/de.txt", "urgent/en.yaml", "urgent/de.yaml", "bot_attack/en.yaml", "bot_attack/de.yaml"]  # fmt: skip


def changed(old: bytes | None, new: bytes) -> ListChange:
    name = "scam_domains.txt"
    return compare(None if old is None else read_list(name, old), read_list(name, new), AT)


def test_the_lists_of_the_release_are_whole() -> None:
    assert LISTS.families == {
        "threat", "lethal", "weapon", "home", "coercion", "sexual-force", "self-harm",
    }  # fmt: skip
    assert {"en", "de"} <= set(LISTS.terms)
    assert min(len(LISTS.domains), LISTS.urgent.count, LISTS.bot_attack.count, len(LISTS.brands.brands)) > 20


@pytest.mark.parametrize("name", ALL)
def test_a_list_that_is_absent_or_wrong_stops_the_start_and_says_where(name: str, tmp_path: Path) -> None:
    folder = shutil.copytree(DATA, tmp_path / "lists")
    for spoil in (b"\xff", b"families: {x: {strong: ['a b|']}}" if "/" in name and "yaml" in name else b"\n-\n: :\n"):
        (folder / name).write_bytes(spoil)
        with pytest.raises(Misconfigured, match=name.partition(".")[0]):
            read_lists(folder)
    (folder / name).unlink()
    if "/" not in name:
        with pytest.raises(Misconfigured, match=name):
            read_lists(folder)


@pytest.mark.parametrize("kind", ["terms", "urgent", "bot_attack"])
def test_one_language_at_least_is_there(kind: str, tmp_path: Path) -> None:
    folder = shutil.copytree(DATA, tmp_path / "lists")
    shutil.rmtree(folder / kind)
    with pytest.raises(Misconfigured, match=f"{kind}: holds no list"):
        read_lists(folder)


@pytest.mark.parametrize("name", ALL)
def test_each_list_can_be_compared(name: str) -> None:
    data = (DATA / name).read_bytes()
    held = read_list(name, data)
    assert held.entries and held.sha256 == sha256(data).hexdigest() and held.size_bytes == len(data)
    assert compare(held, held, AT).share == 0


def test_hosts_are_read_as_block_files_write_them() -> None:
    text = b"# a comment\n0.0.0.0 WWW.Bad.Example\nother.example. # why\n\n"
    assert read_list("scam_domains.txt", text).entries == {"bad.example", "other.example"}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("scam_domains.txt", b"good.example\nno host\n"),
        ("scam_domains.txt", b"\xff\xfe"),
        ("terms/en.txt", b"a\n"),
        ("terms/en.txt", b"ab*\n"),
        ("urgent/en.yaml", b"families: {threat: {strong: ['~']}}"),
        ("urgent/en.yaml", b"families: {threat: {loud: [x]}}"),
        ("urgent/en.yaml", b"families: ["),
        ("attachments.yaml", b"executable: [exe]"),
        ("brands.yaml", b"brands: []\nbait: []"),
        ("terms/../x.yaml", b""),
        ("unknown.txt", b"x"),
    ],
)
def test_a_list_that_is_not_right_is_refused_whole(name: str, data: bytes) -> None:
    with pytest.raises(InputRejected, match="nothing was changed"):
        read_list(name, data)


def test_a_change_says_what_comes_and_goes_and_is_written_down() -> None:
    change = accept(changed(TEN, TEN.replace(b"host3", b"guest3")))
    assert (change.added, change.removed, change.share) == (("guest3.example",), ("host3.example",), 0.2)
    assert change.record == {
        "list": "scam_domains.txt", "sha256": change.new.sha256, "size_bytes": len(TEN) + 1, "at": AT.isoformat(),
        "added": 1, "removed": 1,
    }  # fmt: skip


@pytest.mark.parametrize("new", [b"host1.example\n" * 3, TEN + b"a.example\nb.example\nc.example\n"])
def test_more_than_a_fifth_is_not_changed_without_yes(new: bytes) -> None:
    with pytest.raises(InputRejected, match="more than 20%"):
        accept(changed(TEN, new))
    assert accept(changed(TEN, new), yes=True).share > 0.2


def test_an_empty_list_is_refused_in_spite_of_yes_and_a_first_one_needs_none() -> None:
    with pytest.raises(InputRejected, match="is empty"):
        accept(changed(TEN, b"# nothing\n"), yes=True)
    assert accept(changed(None, TEN)).share == 1


# The default rules


DEFAULTS = {rule.id: rule for rule in read_defaults(DATA / "rules.yaml")}


def test_the_default_rules_watch_only_and_care_is_shown_at_once() -> None:
    assert len(DEFAULTS) == 14 and all({"en", "de"} <= set(rule.text) for rule in DEFAULTS.values())
    assert {rule.level for name, rule in DEFAULTS.items() if name != "care"} == {Level.OBSERVE}
    care = DEFAULTS["care"]
    assert (care.kind, care.level, care.actions) == (RuleKind.CARE, Level.SUGGEST, frozenset({StepKind.NOTE}))
    assert not care.ladder_steps


def test_default_rules_ask_for_families_that_are_there() -> None:
    uses = [use for rule in DEFAULTS.values() if (use := rule.use_of(Detector.URGENT))]
    asked = {family for use in uses for family in tuple(use.parameters["families"])}  # type: ignore[arg-type]
    assert asked == LISTS.families and Detector.BOT_ATTACK in HINTS


@pytest.mark.parametrize("wrong", [{"actions": ["note", "warn"]}, {"ladder": {1: "note"}}, {"level": "act"}])
def test_a_rule_of_care_can_do_nothing_to_anybody(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="no offence"):
        read_rule({**written(DEFAULTS["care"]), **wrong})
