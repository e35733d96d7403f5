"""Rules as they are written down: one form for files, commands and the store, checked whole before any of it counts.

Raises everywhere: `ValueError`, with each thing that is wrong and what to write instead.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.domain.moderation.ladder import read_step, step_words
from core.domain.moderation.rules import (
    LONGEST_TIMEOUT,
    TEXT_CHARS,
    Category,
    Detector,
    DetectorUse,
    Exempt,
    Level,
    Rule,
    RuleKind,
    Step,
    StepKind,
)

MOST_RULES = 60
"""How many rules a community may have."""
_EVERYWHERE = frozenset({Detector.MODEL, Detector.PEOPLE, Detector.TERMS})
_SPAM = frozenset({
    Detector.SCAM_DOMAINS, Detector.INVITES, Detector.DUPLICATE, Detector.ATTACHMENTS, Detector.NEW_MEMBER,
    Detector.FORWARD_KIND, Detector.SPAM_SCORE, Detector.SCRIPTS, Detector.MENTIONS,
})  # fmt: skip
_NOISE = frozenset({Detector.FLOOD, Detector.MENTIONS, Detector.REACTIONS, Detector.SCRIPTS, Detector.DUPLICATE})
SERVES: Mapping[RuleKind, frozenset[Detector]] = {
    RuleKind.THREAT: frozenset({Detector.URGENT}),
    RuleKind.COERCION: frozenset({Detector.URGENT}),
    RuleKind.DOXXING: frozenset({Detector.PRIVATE_DATA}),
    RuleKind.SEXUAL_BOUNDARY: frozenset({Detector.URGENT}),
    RuleKind.HATE: frozenset(),
    RuleKind.HARASSMENT: frozenset({Detector.MENTIONS}),
    RuleKind.DECEPTION: frozenset({Detector.LOOKALIKE_NAME, Detector.SCRIPTS}),
    RuleKind.EVASION: frozenset({Detector.JOIN_AFTER_BAN}),
    RuleKind.SCAM: _SPAM,
    RuleKind.PROMOTION: _SPAM,
    RuleKind.FLOOD: frozenset(
        {Detector.FLOOD, Detector.MENTIONS, Detector.REACTIONS, Detector.SCRIPTS, Detector.DUPLICATE}
    ),
    RuleKind.WRONG_ROOM: frozenset({Detector.ATTACHMENTS}),
    RuleKind.BOT_ABUSE: frozenset({Detector.BOT_ATTACK}),
    RuleKind.CARE: frozenset({Detector.URGENT}),
    RuleKind.CUSTOM: _SPAM | {Detector.FLOOD, Detector.REACTIONS, Detector.PRIVATE_DATA},
}
"""What may serve a rule of each kind, besides a model, people and lists of terms."""
SENSITIVE = frozenset({RuleKind.SEXUAL_BOUNDARY})
"""Rules of which neither text nor media is copied into cards or prompts."""


def _step(text: str) -> str:
    read_step(text)
    return text


StepText = Annotated[str, AfterValidator(_step)]
Words = Annotated[str, Field(min_length=1, max_length=TEXT_CHARS)]
_Value = float | int | bool | str | list[str]


class DetectorForm(BaseModel):
    """A detector with its thresholds and lists, by name."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, _Value] = Field(init=False)
    name: Detector


class ExemptForm(BaseModel):
    """Whom a rule does not touch."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    roles: tuple[str, ...] = ()
    rooms: tuple[int, ...] = ()
    people: tuple[int, ...] = ()


class RuleForm(BaseModel):
    """One rule as it is written down."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
    kind: RuleKind
    text: dict[Annotated[str, Field(pattern=r"^[a-z]{2,3}$")], Words]
    category: Category
    severity: Annotated[int, Field(ge=1, le=4)]
    expiry_days: Annotated[int, Field(ge=1, le=3650)]
    level: Level = Level.OBSERVE
    detectors: Annotated[tuple[Detector | DetectorForm, ...], Field(min_length=1)]
    actions: frozenset[StepKind]
    ladder: dict[Annotated[int, Field(ge=1, le=99)], StepText] = Field(default_factory=dict)
    exempt: ExemptForm = ExemptForm()
    rooms: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _fits(self) -> "RuleForm":
        """Check what two fields say together."""
        if "en" not in self.text:
            raise ValueError("text: write it in English (en) too, for members whose language is not there")
        if StepKind.ASK in self.actions:
            raise ValueError("actions: ask needs no leave; leave it out")
        if self.kind is RuleKind.CUSTOM and StepKind.BAN in self.actions:
            raise ValueError("actions: a rule of your own may not ban; a person can")
        if self.kind is RuleKind.CARE and (self.ladder or self.actions - {StepKind.NOTE} or self.level is Level.ACT):
            raise ValueError("actions: being unwell is no offence; a rule of care has note alone, no ladder, no act")
        names = [each if isinstance(each, Detector) else each.name for each in self.detectors]
        if strange := set(names) - SERVES[self.kind] - _EVERYWHERE:
            raise ValueError(f"detectors: {', '.join(sorted(strange))} cannot serve a rule of kind {self.kind}")
        if len(set(names)) < len(names):
            raise ValueError("detectors: each stands there once")
        for count, text in self.ladder.items():
            self._check_step(count, read_step(text))
        return self

    def _check_step(self, count: int, step: Step) -> None:
        if step.kind is StepKind.ASK:
            return
        if not step.kinds <= self.actions:
            missing = ", ".join(sorted(step.kinds - self.actions))
            raise ValueError(f"ladder {count}: {step_words(step)} needs {missing} among the actions")
        if step.kind is StepKind.TIMEOUT and step.term is not None and step.term > LONGEST_TIMEOUT:
            raise ValueError(f"ladder {count}: a timeout lasts {LONGEST_TIMEOUT.days} days at most")

    def rule(self, version: int) -> Rule:
        """Return the rule that this says."""
        return Rule(
            id=self.id,
            version=version,
            kind=self.kind,
            text=dict(self.text),
            category=self.category,
            detectors=tuple(map(_use, self.detectors)),
            severity=self.severity,
            expiry=timedelta(days=self.expiry_days),
            level=self.level,
            actions=self.actions,
            ladder_steps={count: read_step(text) for count, text in sorted(self.ladder.items())},
            exempt=Exempt(
                roles=frozenset(self.exempt.roles),
                rooms=frozenset(self.exempt.rooms),
                people=frozenset(self.exempt.people),
            ),
            rooms=frozenset(self.rooms),
        )


def _use(form: Detector | DetectorForm) -> DetectorUse:
    if isinstance(form, Detector):
        return DetectorUse(form)
    given = form.__pydantic_extra__
    return DetectorUse(form.name, {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()})


class RuleFile(BaseModel):
    """A file of rules."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    rules: Annotated[tuple[RuleForm, ...], Field(min_length=1, max_length=MOST_RULES)]

    @model_validator(mode="after")
    def _each_once(self) -> "RuleFile":
        names = [form.id for form in self.rules]
        if len(set(names)) < len(names):
            raise ValueError("rules: each id stands there once")
        return self


def read_rules(data: object) -> tuple[RuleForm, ...]:
    """Return the rules of a parsed file."""
    try:
        return RuleFile.model_validate(data).rules
    except ValidationError as exc:
        raise ValueError(_all_wrong(exc, _names(data))) from exc


def read_rule(data: object) -> RuleForm:
    """Return one rule."""
    try:
        return RuleForm.model_validate(data)
    except ValidationError as exc:
        raise ValueError(_all_wrong(exc, {})) from exc


def _names(data: object) -> dict[int, str]:
    rules = data.get("rules") if isinstance(data, Mapping) else None
    listed: Sequence[Any] = rules if isinstance(rules, list) else []
    return {n: str(each.get("id", n + 1))[:40] for n, each in enumerate(listed) if isinstance(each, Mapping)}


def _all_wrong(exc: ValidationError, names: Mapping[int, str]) -> str:
    """Return everything that is wrong, each with the rule and field that it is in; nothing of what was written."""
    said = []
    for error in exc.errors(include_url=False, include_input=False, include_context=False)[:20]:
        where = [part for part in error["loc"] if part != "rules"]
        if where and isinstance(where[0], int) and names:
            where[0] = f"rule {names.get(where[0], where[0])}"
        path = " ".join(map(str, where))
        said.append(f"{path}: {error['msg']}" if path else error["msg"])
    return "; ".join(said)


def written(rule: Rule) -> dict[str, Any]:
    """Return a rule as it is written down; what has its default is left out."""
    exempt = {name: sorted(getattr(rule.exempt, name)) for name in ("roles", "rooms", "people")}
    form: dict[str, Any] = {
        "id": rule.id,
        "kind": rule.kind.value,
        "text": dict(rule.text),
        "category": rule.category.value,
        "severity": rule.severity,
        "expiry_days": rule.expiry.days,
        "level": rule.level.value,
        "detectors": [_written_use(use) for use in rule.detectors],
        "actions": sorted(kind.value for kind in rule.actions),
        "ladder": {count: step_words(step) for count, step in rule.ladder_steps.items()},
    }
    if any(exempt.values()):
        form["exempt"] = {name: held for name, held in exempt.items() if held}
    if rule.rooms:
        form["rooms"] = sorted(rule.rooms)
    return form


def _written_use(use: DetectorUse) -> str | dict[str, Any]:
    if not use.parameters:
        return use.name.value
    given = {name: list(value) if isinstance(value, tuple) else value for name, value in use.parameters.items()}
    return {"name": use.name.value, **given}


def edited(old: Rule, new: RuleForm) -> Rule:
    """Return the next version of a rule. What may have changed what it finds or does acts no more by itself.

    Raises:
        ValueError: The kind changed, which would make it another rule.
    """
    if new.kind is not old.kind:
        raise ValueError(f"rule {old.id}: its kind is {old.kind} for good; make another rule")
    made = replace(new.rule(old.version + 1), acts_by=old.acts_by, acts_since=old.acts_since)
    alike = replace(made, version=old.version, level=old.level) == old
    return made if alike or made.level is not Level.ACT else replace(made, level=Level.SUGGEST)


def overlaid(defaults: Iterable[Rule], own: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the rules of a community: those that it edited or made in place of the defaults, strongest first."""
    by_id = {rule.id: rule for rule in defaults} | {rule.id: rule for rule in own}
    return tuple(sorted(by_id.values(), key=lambda rule: (-rule.severity, rule.id)))
