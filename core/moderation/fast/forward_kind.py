"""What newcomers begin with who only came to advertise: a bare picture or forward, a contact card, a bot's keyboard.

Parameters: `score`, as for newcomers.
"""

from core.domain.moderation.rules import Detector
from core.domain.moderation.signals import Finding, Watched
from core.moderation.fast import new_member
from core.moderation.fast.look import Look


def find(look: Look) -> Finding | None:
    """Return the kind of a newcomer's message, if it is one of those."""
    what = kind_of(look.message)
    if not what:
        return None
    score, least = new_member.weight(look.reading), look.number("score", new_member.SCORE)
    return look.finding(Detector.FORWARD_KIND, score, least, what=what) if score >= least else None


def kind_of(message: Watched) -> str:
    """Return which of the kinds a message is; empty if it is an ordinary one."""
    marks = message.marks
    if marks.contact:
        return "contact card"
    if marks.buttons and marks.via:
        return "keyboard of a bot"
    if message.forwarded:
        return "forward"
    pictures = bool(message.attachments) and all(each.kind in ("image", "video") for each in message.attachments)
    return "picture" if pictures and not message.text.strip() else ""
