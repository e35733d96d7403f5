"""The reviewed data of prompts: roles, skills, templates, style packs and stock messages, read once at start.

Whatever is wrong with a file stops the start, with the file's name and what to do.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.domain.operations.catalog import OPERATIONS
from core.domain.prompt import Persona, Role, Skill, Tier
from core.prompt.builder import TEMPLATE_INPUTS
from core.prompt.sections import FIXED_CAPS
from core.prompt.stock import FALLBACK_LANGUAGE, Messages, StockCatalog, StockKey, parse_stock
from core.prompt.templates import Template, broken, digest, parse_template, split_front_matter
from core.prompt.tokens import estimate

SYSTEM_OWNER = "system"
"""The owner of skills that belong to no role."""
PLAIN = "plain"
"""The pack that must exist: it stands in wherever another one must not be used."""
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Z]{2})?")
# A pack changes tone only. A word of what the bot may do does not belong there, in any sense of the word.
_BEYOND_TONE = re.compile(
    r"\b(tools?|rules?|permissions?|permitted|allowed|forbidden|commands?|operations?|admin\w*|moderat\w*"
    r"|bans?|banned|mutes?|muted|kicks?|kicked|polic(?:y|ies)|instructions?|system prompt)\b",
    re.IGNORECASE,
)


class _Head(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _NamedHead(_Head):
    name: str = Field(pattern=r"^[a-z][a-z0-9_-]*$")
    version: int = Field(ge=1)


class _RoleHead(_NamedHead):
    description: str = Field(min_length=1)
    tier: Tier
    tools: tuple[str, ...]
    operations: tuple[str, ...]
    skills: tuple[str, ...] = ()


class _SkillHead(_NamedHead):
    description: str = Field(min_length=1)
    owner: str
    consumers: tuple[str, ...]
    max_tokens: int = Field(ge=1)


class _PersonaHead(_NamedHead):
    languages: tuple[str, ...] = ()
    humour: int = Field(ge=0, le=3)
    emoji: bool


class _TemplateHead(_Head):
    inputs: tuple[str, ...]


class _StockHead(_Head):
    language: str


HeadT = TypeVar("HeadT", bound=_Head)


@dataclass(frozen=True, slots=True)
class Catalog:
    """All reviewed data, checked; each entry carries the hash of its file."""

    roles: Mapping[str, Role]
    skills: Mapping[str, Skill]
    templates: Mapping[str, Template]
    personas: Mapping[str, Persona]
    stock: StockCatalog


@dataclass(frozen=True, slots=True)
class _Source:
    """One file as read; `path` is relative to the root, for messages."""

    path: str
    name: str
    text: str
    body: str
    fields: Mapping[str, object]

    def head(self, model: type[HeadT]) -> HeadT:
        try:
            head = model.model_validate(self.fields)
        except ValidationError as exc:
            first = exc.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise broken(self.path, f"has front matter that is wrong at `{where}`", first["msg"].lower()) from exc
        if isinstance(head, _NamedHead) and head.name != self.name:
            raise broken(self.path, f"is named `{head.name}` inside", f"write `name: {self.name}` or rename it")
        return head

    def require_size(self, limit_tokens: int) -> None:
        size = estimate(self.body)
        if not self.body:
            raise broken(self.path, "has no text", "write it below the front matter")
        if size > limit_tokens:
            raise broken(self.path, f"has about {size} tokens", f"cut it to {limit_tokens}")


def load_catalog(root: Path, operations: Collection[str] = OPERATIONS, tools: Collection[str] = ()) -> Catalog:
    """Return the catalog under `root`, which holds the folders `agents` and `prompts`.

    `operations` and `tools` are all that exist; a role may name no others.

    Raises:
        Misconfigured: A file is missing or wrong; the message names it and the fix.
    """
    skills = {path.parent.name: _skill(root, path) for path in sorted(root.glob("agents/skills/*/SKILL.md"))}
    roles = {
        role.name: role
        for path in sorted(root.glob("agents/*.agent.md"))
        for role in [_role(root, path, frozenset(operations), frozenset(tools))]
    }
    _check_skills(roles, skills)
    templates = {path.stem: _template(root, path) for path in sorted(root.glob("prompts/*.md"))}
    _check_templates(templates)
    named = frozenset(operations) | frozenset(tools)
    personas = {path.stem: _persona(root, path, named) for path in sorted(root.glob("prompts/personas/*.md"))}
    if PLAIN not in personas:
        raise broken(f"prompts/personas/{PLAIN}.md", "is missing", "restore it from the release")
    return Catalog(roles, skills, templates, personas, _stock(root))


def _read(root: Path, path: Path, name: str) -> _Source:
    shown = path.relative_to(root).as_posix()
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        raise broken(shown, "is not UTF-8", "save it as UTF-8") from exc
    fields, body = split_front_matter(shown, text)
    return _Source(shown, name, text, body, fields)


def _role(root: Path, path: Path, operations: frozenset[str], tools: frozenset[str]) -> Role:
    source = _read(root, path, path.name.removesuffix(".agent.md"))
    head = source.head(_RoleHead)
    source.require_size(FIXED_CAPS["role"])
    for kind, named, known in (("operation", head.operations, operations), ("tool", head.tools, tools)):
        if unknown := sorted(set(named) - known):
            raise broken(source.path, f"names the unknown {kind} `{unknown[0]}`", "remove it or mend its name")
    return Role(
        head.name, head.version, head.tier, head.tools, head.operations, head.skills, source.body, digest(source.text)
    )


def _skill(root: Path, path: Path) -> Skill:
    source = _read(root, path, path.parent.name)
    head = source.head(_SkillHead)
    source.require_size(head.max_tokens)
    return Skill(head.name, head.version, head.owner, head.consumers, source.body, digest(source.text))


def _check_skills(roles: Mapping[str, Role], skills: Mapping[str, Skill]) -> None:
    """Hold roles and skills to each other: who lists whom must be listed back."""
    for role in roles.values():
        for name in role.skills:
            if name not in skills:
                raise broken(f"agents/{role.name}.agent.md", f"names the unknown skill `{name}`", "remove it")
            if role.name not in skills[name].consumers:
                fix = f"add `{role.name}` to its consumers"
                raise broken(f"agents/skills/{name}/SKILL.md", f"does not serve `{role.name}`, which names it", fix)
    for skill in skills.values():
        where = f"agents/skills/{skill.name}/SKILL.md"
        if skill.owner != SYSTEM_OWNER and skill.owner not in roles:
            raise broken(where, f"has the unknown owner `{skill.owner}`", "name a role or `system`")
        for name in skill.consumers:
            if name not in roles or skill.name not in roles[name].skills:
                raise broken(where, f"serves `{name}`, which does not name it", "let both name each other")


def _template(root: Path, path: Path) -> Template:
    source = _read(root, path, path.stem)
    inputs = frozenset(source.head(_TemplateHead).inputs)
    template = parse_template(source.path, path.stem, inputs, source.body)
    source.require_size(FIXED_CAPS["output" if path.stem == "output" else "role"])
    return template


def _check_templates(templates: Mapping[str, Template]) -> None:
    """Hold the templates of chat prompts to what the builder gives them."""
    for name, given in TEMPLATE_INPUTS.items():
        if name not in templates:
            raise broken(f"prompts/{name}.md", "is missing", "restore it from the release")
        if templates[name].inputs != given:
            fix = f"declare exactly: {', '.join(sorted(given))}"
            raise broken(f"prompts/{name}.md", "has other inputs than the builder gives", fix)


def _persona(root: Path, path: Path, names: frozenset[str]) -> Persona:
    source = _read(root, path, path.stem)
    head = source.head(_PersonaHead)
    source.require_size(FIXED_CAPS["persona"])
    named = next((name for name in sorted(names) if name in source.body), None)
    if match := _BEYOND_TONE.search(source.body):
        named = match.group()
    if named is not None:
        raise broken(source.path, f"speaks of `{named}`", "a pack changes tone only: say it without the word")
    return Persona(head.name, head.version, head.languages, head.humour, head.emoji, source.body, digest(source.text))


def _stock(root: Path) -> StockCatalog:
    languages: dict[str, Messages] = {}
    for path in sorted(root.glob("prompts/stock/*.md")):
        if not _LANGUAGE.fullmatch(path.stem):
            continue  # word lists beside the messages, read by those who use them
        source = _read(root, path, path.stem)
        if source.head(_StockHead).language != path.stem:
            raise broken(source.path, "names another language inside", f"write `language: {path.stem}`")
        languages[path.stem] = parse_stock(source.path, source.body)
    shown = f"prompts/stock/{FALLBACK_LANGUAGE}.md"
    if FALLBACK_LANGUAGE not in languages:
        raise broken(shown, "is missing", "restore it from the release")
    if missing := [key for key in StockKey if key not in languages[FALLBACK_LANGUAGE]]:
        raise broken(shown, f"lacks `{missing[0]}`", "write the entry: every message exists in English")
    return StockCatalog(languages)
