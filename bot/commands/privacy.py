"""Commands about oneself: what is kept, choices, corrections, links, a file to take along. Answers are private."""

from collections.abc import Sequence

from bot.commands.spec import CommandAnswer, CommandCall, Services
from core.domain.archiving import is_archived
from core.domain.audience import Private
from core.domain.errors import InputRejected
from core.domain.ids import PersonId, RoomId
from core.domain.profile import Predicate
from core.privacy import links as linking
from core.privacy.export import export_job
from core.privacy.links import Side
from core.privacy.profile import choices_in_words, facts_in_words, links_in_words, may_be_told, rooms_in_words
from core.prompt.stock import StockKey
from core.store import exports, facts, jobs, links, owned, people, preview, units
from core.store.engine import Tx
from core.store.erasures import opt_out
from core.store.facts import Fact

NOT_TOLD = (
    "What I cannot promise: Telegram tells bots nothing of deletions, so what you delete there stays in my archive"
    " until /forget-me or a moderator's delete through me. An answer posted in a room stays readable for whoever is let"
    " in later. What you wrote on the platform itself is there, not here."
)

DM_KEPT = "Direct messages to me are kept here, because the operator switched that on; dm-memory off ends it for you."


async def me(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Show what is kept of the asker, with the words that prove it, as far as this asker may read them now."""
    accounts = await facts.linked_accounts(tx, call.person_id)
    readable = await _readable(tx, call, services, accounts)
    told = [fact for fact in await facts.list_facts(tx, accounts) if may_be_told(fact, readable)]
    known = facts_in_words(told, readable, call.tz)
    rooms = rooms_in_words(await preview.count_rooms(tx, accounts), readable, call.tz)
    linked = links_in_words(await links.list_linked(tx, call.person_id), call.tz)
    choices = choices_in_words(await people.load_choices(tx, call.person_id))
    lines = ["Facts:", *(known or ["none"]), "", "Messages kept:", *(rooms or ["none"]), ""]
    lines += ["Linked accounts:", *(linked or ["none"]), "", "Your choices (/privacy):", *choices, ""]
    lines += ["Questions to me are emptied a day after their answer; archived messages stay until they are deleted."]
    lines += ["/me-correct mends a fact, /export-me gives you everything, /forget-me erases."]
    return CommandAnswer("\n".join(lines), _sources([fact for fact in told if fact.person_id == accounts[0]], readable))


async def _readable(tx: Tx, call: CommandCall, services: Services, accounts: Sequence[PersonId]) -> frozenset[RoomId]:
    """Return what the asker's accounts may read here: the asker's rooms in this mind, and the linked ones' own."""
    rooms = await services.readable.load(tx, call.community_id, Private(call.person_id), call.person_id)
    for account in accounts[1:]:
        for community in await owned.list_communities(tx, account):
            rooms |= await services.readable.load(tx, community, Private(account), account)
    return rooms


def _sources(told: Sequence[Fact], readable: frozenset[RoomId]) -> frozenset[RoomId]:
    """Return the rooms that the answer came from, of those that the asker may read."""
    quoted = frozenset(quote.room_id for fact in told for quote in fact.quotes)
    return readable & quoted.union(*(fact.sources for fact in told))


async def me_correct(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Replace or remove a fact; the old one is not made from the same words again."""
    wanted, _, words = call.options["fact"].strip().partition(" ")
    wanted, value = wanted.lower(), words.strip() or None
    readable = await _readable(tx, call, services, [call.person_id])
    mine = [fact for fact in await facts.list_facts(tx, [call.person_id]) if may_be_told(fact, readable)]
    found = [fact for fact in mine if wanted in (str(fact.id), fact.predicate.value)]
    if len(found) > 1:
        raise InputRejected(f"fact: there are several of {wanted}; name its number, /me shows them")
    if not found:
        return CommandAnswer(await _state_new(tx, call, wanted, value))
    fact = found[0]
    if value is not None and value.lower() == fact.value.lower():
        await facts.confirm(tx, fact.id)
        return CommandAnswer(services.stock.pick(call.room.language, StockKey.COMMAND_DONE, 0))
    await facts.refuse(tx, fact.id)
    if value is None:
        return CommandAnswer(f"Removed: {fact.predicate}. It is not made from the same words again.")
    return CommandAnswer(await _state(tx, call, fact.predicate, value, fact))


async def _state_new(tx: Tx, call: CommandCall, wanted: str, value: str | None) -> str:
    if wanted not in set(Predicate) or value is None:
        raise InputRejected(f"fact: I hold none of this number or sort; sorts are {', '.join(Predicate)}")
    return await _state(tx, call, Predicate(wanted), value, None)


async def _state(tx: Tx, call: CommandCall, predicate: Predicate, value: str, old: Fact | None) -> str:
    """Take the person's own word; it may be used where the old fact could be, else where it was said."""
    sources = [call.room.id] if old is None else sorted(old.sources)
    number = await facts.state(tx, call.person_id, predicate, value, sources)
    if number is None:
        raise InputRejected("value: write one line, pronouns up to 40 characters, anything else up to 200")
    return f"Noted: {number} · {predicate}: {value}"


async def privacy(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Show the asker's choices, or set one; it holds from the next message on."""
    what, switch = call.options.get("what"), call.options.get("set")
    choices = await people.load_choices(tx, call.person_id)
    if what is None:
        told = [*choices_in_words(choices), "", NOT_TOLD, *([DM_KEPT] if services.archiving.store_dm else [])]
        return CommandAnswer("\n".join(told))
    if switch is None:
        raise InputRejected("set: write on or off, as in /privacy archive-me off")
    choices[what] = switch == "on"
    await people.save_choices(tx, call.person_id, choices)
    if what == "archive-me":
        await units.index_author_anew(tx, call.person_id)
    platform, account = await people.find_account(tx, call.person_id)
    await opt_out(tx, services.privacy.key.person(platform, account), out=not any(choices.values()))
    lines = [f"{what} is {switch} from now on."]
    if switch == "off":
        lines.append("What was kept before stays until you erase it: /forget-me shows what that would be.")
    if what == "archive-me" and switch == "off":
        lines.append("Then I answer only your commands, such as /ask: nothing you write is kept to be answered.")
    if not any(choices.values()):
        lines.append("With everything off, all that outlives a /forget-me is a keyed hash that remembers this choice.")
    return CommandAnswer("\n".join(lines))


async def room_memory(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Show what is kept of this room: since when, how much, for how long, who turned it on."""
    kept = await preview.count_room(tx, call.room.id)
    lines = [f"Archive: {'on' if is_archived(call.room, services.archiving) else 'off'}"]
    if kept.set_at is not None:
        lines[0] += f", set {kept.set_at.astimezone(call.tz):%Y-%m-%d} by {kept.set_by or 'an administrator'}"
    since = f", the oldest of {kept.first.astimezone(call.tz):%Y-%m-%d}" if kept.first is not None else ""
    lines.append(f"Messages kept: {kept.messages}{since}")
    lines.append(f"Kept for: {'ever' if kept.retention_days is None else f'{kept.retention_days} days'}")
    if not kept.searchable:
        lines.append("It is hidden: no answer and no search uses it.")
    lines.append("/privacy archive-me off leaves you out, /forget-me erases what is there of you.")
    return CommandAnswer("\n".join(lines))


def side_of(call: CommandCall) -> Side:
    """Return the account that typed a command, and where."""
    return Side(person_id=call.person_id, room_id=call.room.id, front_end=call.front_end, trace=call.trace)


async def link(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Begin to link another account, or enter a code that the other side was shown."""
    code = call.options.get("code")
    if code is None:
        return CommandAnswer(await linking.offer(tx, services.privacy, side_of(call)))
    return CommandAnswer(await linking.enter(tx, services.privacy, side_of(call), code))


async def unlink(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """End the link to another account; each keeps the facts that its own words prove."""
    return CommandAnswer(await linking.part(tx, services.privacy, side_of(call), call.options.get("account")))


async def export_me(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Have everything that is kept of the asker put into one file."""
    number = await exports.add(tx, call.person_id, call.room.id, call.front_end)
    if number is None:
        raise InputRejected("export: a file for you is being made already")
    job = export_job(number, person_id=call.person_id, community_id=call.community_id, trace=call.trace)
    await jobs.enqueue(tx, [job])
    return CommandAnswer("I am making your file, and say here when it is ready.")
