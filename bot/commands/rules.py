"""`/rules` for members, and `/void rules`: what the community's rules are, how far each goes, what is watched."""

from collections.abc import Mapping
from dataclasses import replace

import yaml

from bot.commands.spec import CommandAnswer, CommandCall, Services
from core.domain.errors import Conflict, InputRejected
from core.domain.moderation.ladder import effect_of, step_words
from core.domain.moderation.rule_file import read_rule, read_rules, written
from core.domain.moderation.rules import Detector, Level, Rule
from core.domain.rooms import RoomKind
from core.store import audit, mod_rules, places
from core.store.engine import Tx

ACTS = ("list", "show", "set", "mode", "dry-run", "watch", "brake", "export", "import")
LEVELS = tuple(level.value for level in Level)
SWITCHES = ("on", "off")
MOST_ACTS = 1000


async def rules(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Tell a member the rules, in their room's language."""
    book = await services.moderation.rulebook.load(tx, call.community_id)
    held = [rule for rule in book.rules if rule.level is not Level.OFF]
    if not held:
        return CommandAnswer("This community has no rules in force with me.")
    lines = [f"{rule.id}: {rule.words(call.room.language)}" for rule in held]
    lines.append("/my-record shows what stands about you here; /appeal says why something is wrong.")
    return CommandAnswer("\n".join(lines))


async def void_rules(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Show the rules as they are steered, and change them."""
    match call.options.get("act", "list"):
        case "show":
            return _show(await _named(tx, call, services), call)
        case "set":
            return await _set(tx, call, services)
        case "mode":
            return await _mode(tx, call, services)
        case "dry-run" | "watch" | "brake" as act:
            return await _switch(tx, call, services, act)
        case "export":
            return await _export(tx, call, services)
        case "import":
            return await _import(tx, call, services)
        case _:
            return await _list(tx, call, services)


async def _list(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    book = await services.moderation.rulebook.load(tx, call.community_id)
    lines = [f"{rule.id} · {rule.level} · severity {rule.severity} · v{rule.version}" for rule in book.rules]
    watched = await mod_rules.is_watched(tx, call.room.id)
    lines.append(f"This room is {'watched' if watched else 'not watched'}.")
    lines.append(f"Dry run: {'on, nothing is done' if book.switches.dry else 'off'}.")
    lines.append(f"At most {book.switches.max_acts} acts an hour without a person.")
    lines.append("/void rules mode tells what each level does; /void rules set id:… level:… sets one.")
    return CommandAnswer("\n".join(lines))


async def _named(tx: Tx, call: CommandCall, services: Services) -> Rule:
    wanted = call.options.get("id", "")
    rule = (await services.moderation.rulebook.load(tx, call.community_id)).find(wanted)
    if rule is None:
        raise InputRejected(f"id: there is no rule {wanted or '(none given)'}; /void rules lists them")
    return rule


def _show(rule: Rule, call: CommandCall) -> CommandAnswer:
    found_by = ", ".join(use.name.value + _given(use.parameters) for use in rule.detectors)
    ladder = "; ".join(f"strike {count}: {step_words(step)}" for count, step in rule.ladder_steps.items())
    lines = [
        f"{rule.id} v{rule.version} ({rule.kind}, {rule.category}): {rule.words(call.room.language)}",
        f"level {rule.level} · severity {rule.severity} · a strike counts for {rule.expiry.days} days",
        f"found by: {found_by}",
        f"may do: {', '.join(sorted(kind.value for kind in rule.actions))}",
        f"ladder: {ladder or 'a person decides'}",
    ]
    if rule.level is Level.ACT and rule.acts_since is not None:
        lines.append(f"acts by itself since {rule.acts_since.date().isoformat()}")
    return CommandAnswer("\n".join(lines))


def _given(parameters: Mapping[str, object]) -> str:
    told = [f"{name} {value}" for name, value in parameters.items()]
    return f" ({', '.join(told)})" if told else ""


async def _set(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Set a rule's level, a threshold, or whom it leaves alone."""
    old = await _named(tx, call, services)
    form = written(old)
    if "level" in call.options:
        form["level"] = call.options["level"]
    if "threshold" in call.options:
        form["detectors"] = _with_threshold(old, call.options["threshold"])
    if "exempt" in call.options:
        form["exempt"] = _exempted(old, call.options["exempt"])
    if form == written(old):
        raise InputRejected("set: say what is to change: level:suggest, threshold:spam_score=.9, exempt:room=12")
    try:
        parsed = read_rule(form)
    except ValueError as exc:
        raise InputRejected(str(exc)) from exc
    why = call.options.get("reason", "")
    try:
        new = await services.moderation.rulebook.save(tx, call.community_id, parsed, call.person_id, why)
    except Conflict as exc:
        raise InputRejected(str(exc)) from exc
    await _note(tx, call, {"rule": old.id, "before": written(old), "after": written(new)})
    back = ""
    if parsed.level is Level.ACT and new.level is not Level.ACT:
        back = " What it finds has changed, so it only suggests until you set it to act anew."
    return CommandAnswer(f"{new.id} is v{new.version}, level {new.level}.{back}")


def _with_threshold(rule: Rule, wanted: str) -> list[object]:
    """Return a rule's detectors with one parameter changed: `detector=0.9`, or `detector.parameter=3`."""
    name, _, value = wanted.partition("=")
    detector, _, parameter = name.partition(".")
    try:
        use = rule.use_of(Detector(detector))
        number = float(value)
    except ValueError as exc:
        raise InputRejected("threshold: write detector=number, or detector.parameter=number") from exc
    if use is None:
        held = ", ".join(each.name.value for each in rule.detectors)
        raise InputRejected(f"threshold: {rule.id} does not use {detector}; it has {held}")
    given = {**use.parameters, parameter or "threshold": number}
    changed = replace(use, parameters=given)
    uses = tuple(changed if each.name is use.name else each for each in rule.detectors)
    found: list[object] = written(replace(rule, detectors=uses))["detectors"]
    return found


def _exempted(rule: Rule, wanted: str) -> dict[str, list[int]]:
    """Return whom a rule leaves alone, with `room=12` or `person=7` added, or with a minus before it taken out."""
    removed, what = wanted.startswith("-"), wanted.removeprefix("-")
    kind, _, number = what.partition("=")
    if kind not in ("room", "person") or not number.isdecimal() or len(number) > 15:
        raise InputRejected("exempt: write room=NUMBER or person=NUMBER, with a minus before it to take it out")
    rooms, people_ = set(rule.exempt.rooms), set(rule.exempt.people)
    held = rooms if kind == "room" else people_
    held.discard(int(number)) if removed else held.add(int(number))
    return {"rooms": sorted(rooms), "people": sorted(people_)}


async def _mode(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Tell what each rule's level means, from the same code that decides."""
    book = await services.moderation.rulebook.load(tx, call.community_id)
    lines = []
    for rule in book.rules:
        effect = effect_of(rule.level)
        said = [
            "opens cases" if effect.case else "opens nothing",
            "asks the staff at once" if effect.card else "asks nobody at once",
            "acts by itself" if effect.acts and not book.switches.dry else "does nothing to anybody by itself",
        ]
        lines.append(f"{rule.id} · {rule.level}: {', '.join(said)}")
    if await places.find_staff(tx, call.community_id) is None:
        lines.append("No room is the staff's, so nobody is asked: /void room staff on makes one.")
    return CommandAnswer("\n".join(lines))


async def _switch(tx: Tx, call: CommandCall, services: Services, act: str) -> CommandAnswer:
    wanted = call.options.get("set", "")
    now = await mod_rules.load_switches(tx, call.community_id)
    if act == "brake":
        if not wanted.isdecimal() or int(wanted) > MOST_ACTS:
            raise InputRejected(f"set: how many acts an hour may be done without a person, 0 to {MOST_ACTS}")
        await mod_rules.save_switches(tx, call.community_id, replace(now, max_acts=int(wanted)))
        await _note(tx, call, {"max_acts": int(wanted), "before": now.max_acts})
        return CommandAnswer(f"At most {int(wanted)} acts an hour are done without a person.")
    if wanted not in SWITCHES:
        raise InputRejected("set: on or off")
    on = wanted == "on"
    if act == "dry-run":
        await mod_rules.save_switches(tx, call.community_id, replace(now, dry=on))
        await _note(tx, call, {"dry_run": on, "before": now.dry})
        return CommandAnswer(
            "Nothing is done from now on; cases say what it would have been." if on else "Dry run off."
        )
    if call.room.kind is RoomKind.DM:
        raise InputRejected("act: direct messages are never watched")
    await mod_rules.save_watched(tx, call.room.id, on)
    await _note(tx, call, {"room": call.room.id, "watched": on})
    return CommandAnswer(f"This room is {'watched' if on else 'not watched'} from now on.", concerns_all=True)


async def _export(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    book = await services.moderation.rulebook.load(tx, call.community_id)
    wanted = call.options.get("id")
    held = [rule for rule in book.rules if wanted in (None, rule.id)]
    if not held:
        raise InputRejected(f"id: there is no rule {wanted}; /void rules lists them")
    told = yaml.safe_dump({"rules": [written(rule) for rule in held]}, allow_unicode=True, sort_keys=False)
    return CommandAnswer(f"```yaml\n{told}```")


async def _import(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Take rules over from text in the form that export gives; all of them, or none."""
    text = call.options.get("rules", "").strip().removeprefix("```yaml").removeprefix("```").removesuffix("```")
    if not text.strip():
        raise InputRejected("rules: paste what /void rules export gave, in quotes; voidbot rules import takes a file")
    try:
        forms = read_rules(yaml.safe_load(text))
    except yaml.YAMLError as exc:
        raise InputRejected("rules: this is no YAML; paste what /void rules export gave") from exc
    except ValueError as exc:
        raise InputRejected(str(exc)) from exc
    rulebook = services.moderation.rulebook
    why = call.options.get("reason", "")
    try:
        saved = [await rulebook.save(tx, call.community_id, form, call.person_id, why) for form in forms]
    except Conflict as exc:
        raise InputRejected(str(exc)) from exc
    await _note(tx, call, {"imported": [rule.id for rule in saved]})
    return CommandAnswer("Taken over: " + ", ".join(f"{rule.id} v{rule.version}" for rule in saved))


async def _note(tx: Tx, call: CommandCall, details: Mapping[str, object]) -> None:
    await audit.add(tx, call.person_id, call.path, f"room:{call.room.id}", details)
