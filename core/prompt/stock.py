"""Stock messages: what code says by itself, in reviewed words, several variants where people see it often."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from core.prompt.templates import Template, broken, parse_template

FALLBACK_LANGUAGE = "en"


class StockKey(StrEnum):
    """Every message that code may say; the English file has all of them."""

    ATTACHMENT_VOICE_UNREADABLE = "attachment.voice_unreadable"
    ATTACHMENT_SKIPPED = "attachment.skipped"
    CARD_ASK = "card.ask"
    CARD_HIDDEN = "card.hidden"
    CARD_APPROVE = "card.approve"
    CARD_DENY = "card.deny"
    CASE_CARD = "case.card"
    CASE_CARD_HIDDEN = "case.card_hidden"
    CASE_CARE = "case.care"
    CASE_APPROVE = "case.approve"
    CASE_DISMISS = "case.dismiss"
    CASE_TAKE = "case.take"
    CASE_CONTEXT = "case.context"
    CASE_UNDO = "case.undo"
    CASE_INFORM = "case.inform"
    CASE_INFORM_LIFTED = "case.inform_lifted"
    CASE_INFORM_UPHELD = "case.inform_upheld"
    CHOICE_DECIDED = "choice.decided"
    CHOICE_EXPIRED = "choice.expired"
    COMMAND_UNKNOWN = "command.unknown"
    COMMAND_FORBIDDEN = "command.forbidden"
    COMMAND_BAD_OPTION = "command.bad_option"
    COMMAND_DONE = "command.done"
    COMMAND_WORKING = "command.working"
    COMMAND_EXPIRED_PLAN = "command.expired_plan"
    COMMAND_PREVIEW = "command.preview"
    ERROR_GENERIC = "error.generic"
    ERROR_TOO_LONG = "error.too_long"
    ERROR_PROVIDER_DOWN = "error.provider_down"
    ERROR_STORE_DOWN = "error.store_down"
    HELP_INTRO = "help.intro"
    LIMIT_COOLDOWN = "limit.cooldown"
    LIMIT_DAY = "limit.day"
    LIMIT_ROOM = "limit.room"
    LIMIT_COMMUNITY = "limit.community"
    LIMIT_DEPLOYMENT = "limit.deployment"
    MEMORY_KEPT = "memory.kept"
    MEMORY_NOT_KEPT = "memory.not_kept"
    MEMORY_REFUSED = "memory.refused"
    MEMORY_CORRECTED = "memory.corrected"
    MEMORY_ERASED = "memory.erased"
    PRIVACY_EXPORTED = "privacy.exported"
    PRIVACY_DM_CLOSED = "privacy.dm_closed"
    PRIVACY_NOT_HERE = "privacy.not_here"
    QUOTES_INTRO = "quotes.intro"
    QUOTES_NONE = "quotes.none"
    REPLY_NOTHING_TO_ADD = "reply.nothing_to_add"
    REPLY_CUT_SHORT = "reply.cut_short"
    REPLY_SHORTENED = "reply.shortened"
    REPLY_PART_MISSING = "reply.part_missing"
    REPLY_LATE = "reply.late"
    ROOM_PAUSED = "room.paused"
    ROOM_MODE_SET = "room.mode_set"
    ROOM_ARCHIVE_ON = "room.archive_on"
    ROOM_ARCHIVE_OFF = "room.archive_off"
    ROOM_ARCHIVE_LEFT = "room.archive_left"
    ROOM_ARCHIVE_HIDDEN = "room.archive_hidden"
    ROOM_ARCHIVE_SHOWN = "room.archive_shown"
    ROOM_RETENTION_SET = "room.retention_set"
    ROOM_RETENTION_OFF = "room.retention_off"
    ROOM_DM_KEPT = "room.dm_kept"
    SEARCH_NONE = "search.none"
    SEARCH_INTRO = "search.intro"
    SEARCH_SPAN = "search.span"
    SUMMARY_NONE = "summary.none"
    SUMMARY_READ = "summary.read"
    SUMMARY_SPOKEN = "summary.spoken"
    SUMMARY_DAY = "summary.day"
    SUMMARY_NEWEST = "summary.newest"
    SUMMARY_LEFT_OUT = "summary.left_out"
    SUMMARY_UNCITED = "summary.uncited"
    WHY_NO_RECEIPT = "why.no_receipt"
    WHY_NOT_YOURS = "why.not_yours"
    INV_OPENED = "inv.opened"
    INV_STOPPED = "inv.stopped"
    INV_BUDGET = "inv.budget"


VARIABLES: Mapping[StockKey, frozenset[str]] = {
    StockKey.ATTACHMENT_SKIPPED: frozenset({"name", "reason"}),
    StockKey.CARD_ASK: frozenset({"kind", "room", "draft", "hours"}),
    StockKey.CASE_CARD: frozenset({"case", "rule", "words", "level", "severity", "who", "room", "link", "quote"})
    | frozenset({"found", "strikes", "step", "status", "warning"}),
    StockKey.CASE_CARD_HIDDEN: frozenset({"case", "rule", "status"}),
    StockKey.CASE_CARE: frozenset({"case", "who", "room", "link"}),
    StockKey.CASE_INFORM: frozenset({"community", "rule", "words", "step", "quote", "reason", "sanction"}),
    StockKey.CASE_INFORM_LIFTED: frozenset({"community", "step"}),
    StockKey.CASE_INFORM_UPHELD: frozenset({"community", "step"}),
    StockKey.COMMAND_UNKNOWN: frozenset({"command"}),
    StockKey.COMMAND_FORBIDDEN: frozenset({"command", "who"}),
    StockKey.COMMAND_BAD_OPTION: frozenset({"option", "expected"}),
    StockKey.COMMAND_PREVIEW: frozenset({"what", "stays", "plan"}),
    StockKey.ERROR_GENERIC: frozenset({"id"}),
    StockKey.ERROR_PROVIDER_DOWN: frozenset({"id"}),
    StockKey.LIMIT_COOLDOWN: frozenset({"wait"}),
    StockKey.LIMIT_DAY: frozenset({"limit", "reset"}),
    StockKey.LIMIT_ROOM: frozenset({"reset"}),
    StockKey.LIMIT_COMMUNITY: frozenset({"reset"}),
    StockKey.LIMIT_DEPLOYMENT: frozenset({"reset"}),
    StockKey.MEMORY_KEPT: frozenset({"what", "op"}),
    StockKey.MEMORY_REFUSED: frozenset({"reason"}),
    StockKey.MEMORY_CORRECTED: frozenset({"what", "op"}),
    StockKey.MEMORY_ERASED: frozenset({"count"}),
    StockKey.REPLY_PART_MISSING: frozenset({"part"}),
    StockKey.REPLY_LATE: frozenset({"question"}),
    StockKey.ROOM_MODE_SET: frozenset({"mode"}),
    StockKey.ROOM_ARCHIVE_LEFT: frozenset({"count"}),
    StockKey.ROOM_RETENTION_SET: frozenset({"days"}),
    StockKey.SEARCH_INTRO: frozenset({"count"}),
    StockKey.SEARCH_SPAN: frozenset({"since", "until"}),
    StockKey.SUMMARY_READ: frozenset({"count", "room", "since", "until"}),
    StockKey.SUMMARY_LEFT_OUT: frozenset({"count"}),
    StockKey.INV_OPENED: frozenset({"id"}),
    StockKey.INV_STOPPED: frozenset({"id", "reason"}),
    StockKey.INV_BUDGET: frozenset({"id", "used", "cap"}),
}
"""What the caller gives for a message; a key that is not here takes nothing."""

Messages = Mapping[StockKey, tuple[Template, ...]]


@dataclass(frozen=True, slots=True)
class StockCatalog:
    """The stock messages of every language; English stands in for what another language lacks."""

    languages: Mapping[str, Messages]

    def count(self, language: str, key: StockKey) -> int:
        """Return how many variants there are to choose from; at least 1."""
        return len(self._variants(language, key))

    def pick(self, language: str, key: StockKey, index: int, /, **values: str) -> str:
        """Return variant `index` (counted round and round) with `values` put in literally."""
        variants = self._variants(language, key)
        return variants[index % len(variants)].render(**values)

    def _variants(self, language: str, key: StockKey) -> tuple[Template, ...]:
        for candidate in (language, language.partition("-")[0]):
            if variants := self.languages.get(candidate, {}).get(key):
                return variants
        return self.languages[FALLBACK_LANGUAGE][key]


def shuffled_index(seed: str, nth: int, size: int) -> int:
    """Return which of `size` variants the `nth` use (from 0) takes.

    Each round of `size` uses takes each variant once in an order of its own, and no round begins with what
    the one before ended with. The same seed (a room and a key, say) gives the same order everywhere.
    """
    turn, place = divmod(nth, size)
    return _bag(seed, turn, size)[place]


def _bag(seed: str, turn: int, size: int) -> list[int]:
    order = _drawn(seed, turn, size)
    if size > 2 and turn and order[0] == _bag_end(seed, turn - 1, size):
        order[0], order[1] = order[1], order[0]
    elif size == 2:
        order = _drawn(seed, 0, size)  # two variants can only take turns
    return order


def _bag_end(seed: str, turn: int, size: int) -> int:
    # The swap above never moves the last of three or more, so the end of a round needs no look further back.
    return _drawn(seed, turn, size)[-1]


def _drawn(seed: str, turn: int, size: int) -> list[int]:
    return sorted(range(size), key=lambda item: hashlib.sha256(f"{seed}:{turn}:{item}".encode()).digest())


_HEADING = re.compile(r"## (?P<key>\S+)(?: \((?P<variables>[a-z_, ]+)\))?")


def parse_stock(path: str, body: str) -> Messages:
    """Return the messages of one language file: `## key (variables)`, then a `- ` line for each variant.

    A variant goes on in lines indented by two blanks.

    Raises:
        Misconfigured: An unknown or repeated key, other variables than code gives, or an empty entry.
    """
    found: dict[StockKey, tuple[Template, ...]] = {}
    for block in re.split(r"(?m)^(?=## )", body):
        head, _, rest = block.partition("\n")
        if not block.strip():
            continue
        match = _HEADING.fullmatch(head.strip())
        if match is None:
            raise broken(path, f"has the line `{head}`", "begin each entry with `## key` or `## key (name, name)`")
        key = _key(path, match["key"])
        if key in found:
            raise broken(path, f"has `{key}` twice", "join the two entries")
        declared = frozenset(re.findall(r"[a-z_]+", match["variables"] or ""))
        wanted = VARIABLES.get(key, frozenset())
        if declared != wanted:
            raise broken(path, f"declares other variables for `{key}` than code gives", _heading(key, wanted))
        found[key] = _variants(path, key, declared, rest)
    return found


def _key(path: str, name: str) -> StockKey:
    try:
        return StockKey(name)
    except ValueError as exc:
        raise broken(path, f"has the unknown key `{name}`", "remove it or mend its name") from exc


def _heading(key: StockKey, variables: frozenset[str]) -> str:
    return f"write `## {key} ({', '.join(sorted(variables))})`" if variables else f"write `## {key}`"


def _variants(path: str, key: StockKey, declared: frozenset[str], rest: str) -> tuple[Template, ...]:
    texts = [re.sub(r"(?m)^ {2}", "", text).strip() for text in re.split(r"(?m)^-(?: |$)", rest)]
    if texts[0]:
        raise broken(path, f"has words before the first variant of `{key}`", "begin each variant with `- `")
    if len(texts) == 1 or not all(texts[1:]):
        raise broken(path, f"has an empty entry for `{key}`", "write at least one `- ` line with words")
    where = f"{path} at {key}"
    return tuple(parse_template(where, str(key), declared, text) for text in texts[1:])
