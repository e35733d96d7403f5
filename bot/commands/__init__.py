"""The one table of commands: every front end, `/help` and the documents render this list."""

from bot.commands import (
    admins,
    forgetting,
    keeping,
    members,
    minding,
    money,
    passing,
    privacy,
    rules,
    setup,
    staff,
    standing,
    summarize,
    unasked,
)
from bot.commands.parse import Parsed, parse
from bot.commands.spec import Access, CommandSpec, Option, OptionType, Visibility
from core.domain.budgets import Window
from core.domain.rooms import RoomMode
from core.store.people import CHOICES

_MESSAGE = Option("message", OptionType.WORD, "the id of a message of mine; without it, my last one here")

COMMANDS: tuple[CommandSpec, ...] = (
    CommandSpec(
        path="ask",
        summary="ask me something",
        handler=members.ask,
        visibility=Visibility.ROOM,
        options=(
            Option("private", OptionType.FLAG, "yes: only you see the answer", choices=("yes", "no")),
            Option("question", OptionType.TEXT, "what you want to know", required=True),
        ),
    ),
    CommandSpec(
        path="search",
        summary="find what was said, in rooms you may read",
        handler=members.search,
        options=(
            Option("room", OptionType.WORD, "only in this room"),
            Option("person", OptionType.WORD, "only what this person said"),
            Option("since", OptionType.WORD, "only since then: 2026-05-07, or 3h, 2d, 1w"),
            Option("query", OptionType.TEXT, 'words, "exact phrases", -words to leave out', required=True, quotes=True),
        ),
        look=members.search_query,
    ),
    CommandSpec(
        path="summarize",
        summary="sum up what was said in a room, with links",
        handler=summarize.summarize,
        later=True,
        options=(
            Option("since", OptionType.WORD, "since then: 2026-05-07, yesterday, 3h, 2d, 1w; or how many messages"),
            Option("room", OptionType.WORD, "of this room; without it, of the one you are in"),
            Option("count", OptionType.NUMBER, "how many messages at most, up to 500"),
        ),
    ),
    CommandSpec(path="why", summary="why I said that: the receipt", handler=members.why, options=(_MESSAGE,)),
    CommandSpec(
        path="why-silent",
        summary="why I said nothing",
        handler=members.why_silent,
        options=(Option("message", OptionType.WORD, "the id of your message; without it, your last one here"),),
    ),
    CommandSpec(path="me", summary="what I keep of you, with the words that prove it", handler=privacy.me),
    CommandSpec(
        path="me-correct",
        summary="mend a fact about you; with its number alone it goes",
        handler=privacy.me_correct,
        options=(
            Option("fact", OptionType.TEXT, "its number or sort, as /me shows them, then what is right", required=True),
        ),
    ),
    CommandSpec(
        path="privacy",
        summary="what I may keep and do with regard to you",
        handler=privacy.privacy,
        options=(
            Option("what", OptionType.WORD, "which choice", choices=tuple(CHOICES)),
            Option("set", OptionType.WORD, "from now on", choices=("on", "off")),
        ),
    ),
    CommandSpec(path="room-memory", summary="what I keep of this room", handler=privacy.room_memory),
    CommandSpec(path="mind", summary="what I hold in mind that everyone here may hear", handler=minding.mind),
    CommandSpec(
        path="link",
        summary="link another account of yours, with consent on both sides",
        handler=privacy.link,
        options=(Option("code", OptionType.WORD, "the code that your other account was shown"),),
    ),
    CommandSpec(
        path="unlink",
        summary="end the link to another account of yours",
        handler=privacy.unlink,
        options=(Option("account", OptionType.WORD, "platform:account, where there are several"),),
    ),
    CommandSpec(path="export-me", summary="a file with everything I keep of you", handler=privacy.export_me),
    CommandSpec(
        path="forget-me",
        summary="erase you, or some of what you said: first a preview",
        handler=forgetting.forget_me,
        options=(
            Option("scope", OptionType.WORD, "how much; all unless said", choices=forgetting.SCOPES),
            Option("rooms", OptionType.WORD, "only in these rooms, with commas between them"),
            Option("since", OptionType.WORD, "only since then: 2026-05-07, or 3h, 2d, 1w"),
            Option("before", OptionType.WORD, "only before then"),
            Option("plan", OptionType.WORD, "the plan of the preview, to go ahead"),
        ),
    ),
    CommandSpec(path="rules", summary="the rules of this community", handler=rules.rules),
    CommandSpec(path="my-record", summary="what stands about you here, and why", handler=standing.my_record),
    CommandSpec(
        path="appeal",
        summary="say why something that was done to you is wrong",
        handler=standing.appeal,
        options=(
            Option("sanction", OptionType.WORD, "its number, as /my-record shows it; the newest, unless said"),
            Option("text", OptionType.TEXT, "why it is wrong", required=True),
        ),
    ),
    CommandSpec(path="usage", summary="limits, what is used, when it returns", handler=members.usage),
    CommandSpec(
        path="help",
        summary="what you may use here",
        handler=members.help_,
        options=(Option("command", OptionType.TEXT, "the command to explain"),),
    ),
    CommandSpec(
        path="void status", summary="health, queues, answers in doubt", handler=admins.status, access=Access.ADMIN
    ),
    CommandSpec(path="void rooms", summary="rooms and their switches", handler=admins.rooms, access=Access.ADMIN),
    CommandSpec(
        path="void setup",
        summary="how rooms are set up, what is in the way, what to type next",
        handler=setup.setup,
        access=Access.ADMIN,
    ),
    CommandSpec(
        path="void mode",
        summary="when I answer here, and whether I keep what is said",
        handler=keeping.mode,
        access=Access.ADMIN,
        visibility=Visibility.ROOM,
        audited=True,
        options=(
            Option("mode", OptionType.WORD, "when I answer", choices=tuple(mode.value for mode in RoomMode)),
            Option(
                "archive",
                OptionType.WORD,
                "keep what is said here; never: nor in threads",
                choices=keeping.SWITCHES,
            ),
            Option("retention", OptionType.WORD, "for how long: 90d, 12w, 6m, 2y, or off"),
            Option("kept", OptionType.WORD, "what becomes of what is there", choices=keeping.KEPT),
            Option("plan", OptionType.WORD, "the plan of the preview, to go ahead"),
        ),
    ),
    CommandSpec(
        path="void persona",
        summary="my style in this room",
        handler=admins.persona,
        access=Access.ADMIN,
        audited=True,
        options=(Option("name", OptionType.WORD, "the style pack", required=True),),
    ),
    CommandSpec(
        path="void forget",
        summary="erase a topic, a room or a time for everybody: first a preview",
        handler=forgetting.forget,
        access=Access.ADMIN,
        options=(
            Option("topic", OptionType.WORD, "words that the messages hold"),
            Option("before", OptionType.WORD, "only before then: 2026-05-07"),
            Option("room", OptionType.WORD, "only in this room"),
            Option("plan", OptionType.WORD, "the plan of the preview, to go ahead"),
        ),
    ),
    CommandSpec(
        path="void mind",
        summary="what I hold in mind, why, what was done; undo: first a preview",
        handler=minding.void_mind,
        access=Access.ADMIN,
        options=(
            Option("act", OptionType.WORD, "what to do; show, unless said", choices=minding.ACTS),
            Option("entry", OptionType.WORD, "the entry to explain, as show lists them"),
            Option("op", OptionType.NUMBER, "the number of the operation to undo"),
            Option("reason", OptionType.WORD, "why it is to be undone, in quotes"),
            Option("plan", OptionType.WORD, "the plan of the preview, to go ahead"),
        ),
    ),
    CommandSpec(
        path="void pass",
        summary="what I do by myself: how it stands, run it now, pause it",
        handler=passing.void_pass,
        access=Access.ADMIN,
        options=(
            Option("act", OptionType.WORD, "what to do; list, unless said", choices=passing.ACTS),
            Option("name", OptionType.WORD, "the pass, or all; to show one the number of a run"),
            Option("mode", OptionType.WORD, "how far a run may go", choices=tuple(passing.MODES)),
            Option("for", OptionType.WORD, "for how long it is paused: 30m, 2h, 3d, 1w"),
            Option("reason", OptionType.WORD, "why it is paused, in quotes"),
        ),
    ),
    CommandSpec(
        path="void room",
        summary="whether I may speak here unasked, the quiet hours, where the staff is asked",
        handler=passing.room,
        access=Access.ADMIN,
        visibility=Visibility.ROOM,
        audited=True,
        options=(
            Option("what", OptionType.WORD, "what to set", choices=passing.SETS),
            Option("set", OptionType.WORD, "unattended, staff: on or off; quiet: 22:00-07:00 or off"),
        ),
    ),
    CommandSpec(
        path="void candidates",
        summary="what I would say unasked: look, approve, deny",
        handler=unasked.candidates,
        access=Access.ADMIN,
        options=(
            Option("act", OptionType.WORD, "what to do; list, unless said", choices=unasked.ACTS),
            Option("id", OptionType.WORD, "which one, as list shows it"),
            Option("reason", OptionType.WORD, "why it is denied, in quotes"),
        ),
    ),
    CommandSpec(
        path="void rules",
        summary="the rules I watch by, how far each goes, what is watched",
        handler=rules.void_rules,
        access=Access.ADMIN,
        options=(
            Option("act", OptionType.WORD, "what to do; list, unless said", choices=rules.ACTS),
            Option("id", OptionType.WORD, "which rule"),
            Option("level", OptionType.WORD, "how far it goes", choices=rules.LEVELS),
            Option("threshold", OptionType.WORD, "from what on: detector=number"),
            Option("exempt", OptionType.WORD, "whom it leaves alone: room=NUMBER, person=NUMBER, a minus takes it out"),
            Option("set", OptionType.WORD, "dry-run, watch: on or off; brake: how many acts an hour"),
            Option("rules", OptionType.WORD, "to import: what export gave, in quotes"),
            Option("reason", OptionType.WORD, "why, in quotes"),
        ),
    ),
    CommandSpec(
        path="void cases",
        summary="what the staff should look at: list, show, take, decide",
        handler=staff.void_cases,
        access=Access.MODERATOR,
        options=(
            Option("act", OptionType.WORD, "what to do; list, unless said", choices=staff.ACTS),
            Option("id", OptionType.WORD, "which case; to reverse a sanction, to grant and refuse an appeal"),
            Option("step", OptionType.WORD, "what is to be done: warn, delete, timeout 1h, kick, ban 7d; in quotes"),
            Option("member", OptionType.WORD, "whom, to do something without a case"),
            Option("rule", OptionType.WORD, "under which rule; only those of it"),
            Option("severity", OptionType.NUMBER, "only from this severity on"),
            Option("mine", OptionType.FLAG, "yes: only what I have taken", choices=("yes", "no")),
            Option("version", OptionType.NUMBER, "the case as you have seen it"),
            Option("reason", OptionType.WORD, "why, in quotes; the member is told"),
        ),
    ),
    CommandSpec(
        path="void budget",
        summary="show the budgets, or set one",
        handler=money.budget,
        access=Access.ADMIN,
        audited=True,
        options=(
            Option("scope", OptionType.WORD, "whose", choices=tuple(scope.value for scope in money.SCOPES)),
            Option("unit", OptionType.WORD, "what is counted", choices=tuple(money.UNITS)),
            Option("amount", OptionType.WORD, "the limit, or none"),
            Option("window", OptionType.WORD, "how long", choices=tuple(window.value for window in Window)),
        ),
    ),
)
"""Every command there is. There are no aliases."""


def question_of(text: str) -> tuple[str, bool] | None:
    """Return the question of an `/ask` line and whether only the asker sees the answer; None for other lines."""
    parsed = parse(text, COMMANDS)
    if not isinstance(parsed, Parsed) or parsed.spec.path != "ask":
        return None
    return parsed.options["question"], parsed.options.get("private") == "yes"
