"""The rules of a community as they are in force: the defaults, with what it edited or made in their place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from core.domain.errors import Conflict, InputRejected, Misconfigured
from core.domain.ids import CommunityId, PersonId
from core.domain.moderation.rule_file import MOST_RULES, RuleForm, edited, overlaid, read_rule, read_rules, written
from core.domain.moderation.rules import Level, Rule
from core.store import mod_rules
from core.store.engine import Tx
from core.store.mod_rules import Switches

FIRST = 1
"""The version of a default."""


def read_defaults(path: Path) -> tuple[Rule, ...]:
    """Return the rules that every community begins with.

    Raises:
        Misconfigured: The file is not there, or not all of it is right.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        return tuple(form.rule(FIRST) for form in read_rules(data))
    except (OSError, yaml.YAMLError, ValueError) as exc:
        raise Misconfigured(f"{path}: {exc}; put the file of the release in its place") from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """The rules and switches of one community at one version of its settings."""

    switches: Switches
    rules: tuple[Rule, ...]

    def find(self, rule_id: str) -> Rule | None:
        """Return a rule by its id; None if there is none."""
        return next((rule for rule in self.rules if rule.id == rule_id), None)


@dataclass(frozen=True, slots=True)
class Rulebook:
    """Loads and edits rules. What was read is kept until the community's settings have another version."""

    defaults: tuple[Rule, ...]
    _books: dict[CommunityId, Book] = field(default_factory=dict)

    async def load(self, tx: Tx, community_id: CommunityId, settings_version: int | None = None) -> Book:
        """Return a community's rules. `settings_version`: as of now, where the caller has just read it."""
        held = self._books.get(community_id)
        if held is not None and held.switches.settings_version == settings_version:
            return held
        switches = await mod_rules.load_switches(tx, community_id)
        if held is None or held.switches != switches:
            rules = overlaid(self.defaults, await mod_rules.list_own(tx, community_id))
            held = self._books[community_id] = Book(switches=switches, rules=rules)
        return held

    async def find(self, tx: Tx, community_id: CommunityId, rule_id: str, version: int) -> Rule | None:
        """Return a rule as it was at a version."""
        default = next((rule for rule in self.defaults if rule.id == rule_id), None)
        if default is not None and version == default.version:
            return default
        return await mod_rules.find_version(tx, community_id, rule_id, version)

    async def save(self, tx: Tx, community_id: CommunityId, form: RuleForm, by: PersonId | None, why: str) -> Rule:
        """Make the next version of a rule, or a rule that is new; return it as it is in force then.

        Raises:
            InputRejected: It cannot be so; says why.
            Conflict: Somebody else has just changed it.
        """
        book = await self.load(tx, community_id)
        old = book.find(form.id)
        if old is None and len(book.rules) >= MOST_RULES:
            raise InputRejected(f"rules: there are {MOST_RULES}, and no community may have more")
        try:
            rule = form.rule(FIRST) if old is None else edited(old, form)
        except ValueError as exc:
            raise InputRejected(str(exc)) from exc
        if rule.level is Level.ACT and by is None:
            raise InputRejected(f"rule {rule.id}: only an administrator of the community can let it act by itself")
        if old is not None and replace(rule, version=old.version, acts_by=old.acts_by) == old:
            return old
        if not await mod_rules.add_version(tx, community_id, rule, written(rule), by, why):
            raise Conflict(f"rule {rule.id}: somebody has just changed it")
        self._books.pop(community_id, None)
        return rule

    async def set_level(
        self, tx: Tx, community_id: CommunityId, rule_id: str, level: Level, by: PersonId | None, why: str
    ) -> tuple[Rule, Rule]:
        """Set how far a rule goes; return it before and after.

        Raises:
            InputRejected: There is no such rule, or it may not go so far.
            Conflict: Somebody else has just changed it.
        """
        old = (await self.load(tx, community_id)).find(rule_id)
        if old is None:
            raise InputRejected(f"id: there is no rule {rule_id}; /rules lists them")
        form = read_rule({**written(old), "level": level.value})
        return old, await self.save(tx, community_id, form, by, why)


def rule_names(rules: Sequence[Rule]) -> Mapping[str, Rule]:
    """Return rules by their ids."""
    return {rule.id: rule for rule in rules}
