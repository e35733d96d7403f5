"""Files of messages as the inbox keeps them: what is needed to fetch one, never an address and never its bytes."""

from collections.abc import Mapping
from typing import Any

from core.domain.messages import FETCHED_KINDS, Attachment, InboundMessage
from core.store.words import clean


def files_of(message: InboundMessage) -> list[dict[str, object]]:
    """Return the files that a turn may read.

    A file with a note has been dealt with by its adapter: it was read, or cannot be.
    """
    return [
        {
            "kind": each.kind,
            "name": clean(each.name),
            "mime": clean(each.mime),
            "size": each.size_bytes,
            "handle": clean(each.handle),
        }
        for each in message.attachments
        if each.kind in FETCHED_KINDS and each.handle and not each.note
    ]


def attachment_of(stored: Mapping[str, Any]) -> Attachment:
    """Return a file as it was handed over."""
    return Attachment(
        stored["kind"],
        name=stored["name"],
        mime=stored["mime"],
        size_bytes=stored["size"],
        handle=stored["handle"],
    )
