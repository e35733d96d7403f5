"""The guide for operators names every check of the doctor and every alert of the front ends."""

import ast
import re

import pytest

from bot.adapters.discord_doctor import NEEDED, PERMISSIONS
from bot.settings import SECTIONS, variable_names
from scripts.house import ROOT, Source, sources

GUIDE = (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")
ADAPTERS = [each for each in sources("bot/adapters") if each.name.split("/")[-1].startswith(("discord_", "telegram_"))]
DOCTORS = [each for each in ADAPTERS if each.name.endswith("_doctor.py")] + [
    each for each in sources("bot") if each.name == "bot/doctor.py"
]
SAYS = {"ok", "warning", "wrong", "clock"}
WORDS = 3
"""So many words of an alert's beginning are looked for; figures in it end the beginning."""


def pieces(node: ast.expr) -> str:
    """Return a text with … for what is only known while it runs."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(pieces(each) for each in values)
        case _:
            return "…"


def alerts(source: Source) -> set[str]:
    """Return what a front end tells the operator: constants that are alerts, and what its calls say in place."""
    found = set()
    for node in ast.walk(source.tree()):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))) if name.isupper():
                found |= {text} if text.startswith(("discord: ", "telegram: ")) else set()
            case ast.Call(func=ast.Attribute(attr="raise_once"), args=[_, text]):
                found.add(pieces(text))
            case ast.Call(func=ast.Attribute(attr="_alert"), args=[text]):
                found.add(pieces(text))
    return {text for text in found if not text.startswith("…")}


def beginning(alert: str) -> str:
    """Return the words of an alert by which the guide lists it."""
    first = re.split(r"[;(]", alert)[0].strip()
    front, figure, back = first.partition("…")
    if not figure:
        return " ".join(front.split()[: WORDS + 1])
    return front.strip() if len(front.split()) > WORDS else f"{front}…{back}".strip()


def checks(source: Source) -> set[str]:
    """Return the names of checks that a doctor reports."""
    names = set()
    for node in ast.walk(source.tree()):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= set(re.findall(r"^(?:discord|telegram|database)\.[a-z_]+$", node.value))
        match node:
            case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(check)), *_]) if name in SAYS:
                names.add(f"clock.{check}" if name == "clock" else check)
    return names


ALERTS = sorted({text for source in ADAPTERS for text in alerts(source)})
CHECKS = sorted({name for source in DOCTORS for name in checks(source)})


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_is_in_the_guide(alert: str) -> None:
    assert f"`{beginning(alert)}" in GUIDE


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_is_in_the_guide(check: str) -> None:
    assert f"`{check}`" in GUIDE


def test_alerts_and_checks_are_seen() -> None:
    assert len(ALERTS) > 10 and len(CHECKS) > 15
    text = 'A = "discord: x is off; do y"\nself._alarm.raise_once("b", f"telegram: {n} h")\nself._alert(f"{exc}")'
    assert alerts(Source("x.py", text)) == {"discord: x is off; do y", "telegram: … h"}
    assert beginning("discord: the token is refused; make") == "discord: the token is"
    assert beginning("discord: … starts in a day; at") == "discord: … starts in a day"
    assert checks(Source("x.py", 'ok("a.b", f"x")\nclock("c", 1)\ncheck = "discord.d"')) == {
        "a.b",
        "clock.c",
        "discord.d",
    }


def test_the_invite_link_of_the_guide_is_the_doctor_s() -> None:
    assert f"&scope=bot+applications.commands&permissions={PERMISSIONS.value}" in GUIDE
    assert [label for label in NEEDED.values() if f"| {label} |" not in GUIDE] == []


def test_settings_that_the_guide_names_exist() -> None:
    known = {name for section in SECTIONS for name in variable_names(section)}
    asked = set(re.findall(r"\b(?:VOIDBOT|DISCORD|TELEGRAM)_[A-Z_]+\b", GUIDE))
    assert asked and asked - known == set()
