"""From a typed line to a command and its options. Pure; what is wrong is a value that says so."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.commands.spec import CommandSpec, Option, OptionType

_WORDS = re.compile(r'(?:([a-z][a-z_-]*):)?"((?:[^"\\]|\\.)*)"(?!\S)|(\S+)', re.DOTALL)
_NAMED = re.compile(r"([a-z][a-z_-]*):(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A known command with its options as text."""

    spec: CommandSpec
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Unknown:
    """No command has this name."""

    word: str


@dataclass(frozen=True, slots=True)
class BadOption:
    """An option that is missing, not known or of the wrong form."""

    spec: CommandSpec
    option: str
    expected: str


def parse(text: str, table: Sequence[CommandSpec]) -> Parsed | Unknown | BadOption:
    """Return what a line that begins with a slash asks for; the longest matching path wins.

    Options are written `name:value` (with quotes around blanks) or simply in their order.
    """
    line = text.strip().removeprefix("/")
    words = line.split()
    spec = next(
        (spec for spec in sorted(table, key=lambda spec: -len(spec.path)) if _starts(words, spec.path.split())), None
    )
    if spec is None:
        return Unknown(" ".join(words[:2]) or "/")
    depth = len(spec.path.split())
    return _options(spec, "".join(line.split(maxsplit=depth)[depth:]))


def _starts(words: Sequence[str], path: Sequence[str]) -> bool:
    return [word.lower().replace("_", "-") for word in words[: len(path)]] == list(path)


def _options(spec: CommandSpec, rest: str) -> Parsed | BadOption:
    known = {option.name: option for option in spec.options}
    given: dict[str, str] = {}
    loose: list[str] = []
    keeps_quotes = any(option.quotes for option in spec.options)
    for match in _WORDS.finditer(rest):
        name, quoted, bare = match.groups()
        if bare is not None and (named := _NAMED.fullmatch(bare)) is not None and named[1] in known:
            given[named[1]] = named[2]
        elif bare is not None:
            loose.append(bare)
        elif name is None:
            loose.append(f'"{_unescaped(quoted)}"' if keeps_quotes else _unescaped(quoted))
        elif name in known:
            given[name] = _unescaped(quoted)
        else:
            loose.append(match[0])
    # A text takes all loose words, so that its command's other options are always written by name.
    texts = [option for option in spec.options if option.type is OptionType.TEXT]
    for option in texts or spec.options:
        if not loose:
            break
        if option.name in given:
            continue
        if option.type is OptionType.TEXT:
            given[option.name] = " ".join(loose)
            loose = []
        else:
            given[option.name] = loose.pop(0)
    if loose:
        return BadOption(spec, loose[0], f"one of: {', '.join(known) or 'nothing'}")
    return _checked(spec, given)


def _unescaped(quoted: str) -> str:
    return _ESCAPED.sub(r"\1", quoted)


def _checked(spec: CommandSpec, given: Mapping[str, str]) -> Parsed | BadOption:
    for option in spec.options:
        value = given.get(option.name)
        if option.required and not (value or "").strip():
            return BadOption(spec, option.name, option.summary)
        if value is None:
            continue
        if (wanted := _refusal(option, value)) is not None:
            return BadOption(spec, option.name, wanted)
    return Parsed(spec, given)


def _refusal(option: Option, value: str) -> str | None:
    if option.choices and value not in option.choices:
        return f"one of: {', '.join(option.choices)}"
    if option.type is OptionType.NUMBER and not re.fullmatch(r"\d+(\.\d+)?", value):
        return "a number"
    if option.type is OptionType.FLAG and value not in ("yes", "no"):
        return "yes or no"
    return None
