"""When a webhook's message is the copy of a person's: proxy services delete what one wrote and say it by a webhook."""

from datetime import timedelta

from core.domain.messages import InboundMessage

PROXY_WINDOW = timedelta(seconds=5)
"""How far apart an original and its copy may be, in either order."""
MARK_CHARS = 16
"""How long the marks before and behind a text may be by which one says under which name it is to appear."""
PROXIED_FOR = timedelta(days=30)
"""How long a room counts as one whose messages are copied after the last copy."""


def is_copy(copy: InboundMessage, original: InboundMessage) -> bool:
    """Return whether what a webhook said is what a person said, with or without marks around it, at the same time."""
    if copy.room != original.room or abs(copy.sent_at - original.sent_at) > PROXY_WINDOW:
        return False
    said, shown = original.text.strip(), copy.text.strip()
    if not shown:
        files = [each.name for each in copy.attachments]
        return bool(files) and files == [each.name for each in original.attachments] and len(said) <= 2 * MARK_CHARS
    at = said.find(shown)
    return 0 <= at <= MARK_CHARS and len(said) - at - len(shown) <= MARK_CHARS
