"""How a source is named to the person who asked: author, room, time, and the way there if it is open to them."""

from collections.abc import Mapping

from core.domain.ids import MessageId
from core.domain.prompt import RequestContext, SourceId, SourceKind
from core.prompt.fences import shown_name
from core.providers.quotes import Quote, Source
from core.store.archive import ArchivedMessage

Links = Mapping[MessageId, str | None]
"""The messages that the asker may open now, each with its link, or None where its platform has none."""


def quote_of(message: ArchivedMessage, links: Links) -> Quote:
    """Return an archived message as a quotation."""
    author, room = shown_name(message.author_name), shown_name(message.room_name)
    opens = message.id in links
    return Quote(Source(author, room, message.sent_at, message.id, opens, links.get(message.id)), message.text)


def cited_line(context: RequestContext, source: SourceId, links: Links) -> str:
    """Return the line of a cited source; only what stood in the prompt can be cited."""
    for passage in context.passages:
        if source.kind is SourceKind.PASSAGE and passage.key == source.key:
            author, room = shown_name(passage.speaker.name), shown_name(passage.room_name)
            key = MessageId(int(passage.key))
            return Source(author, room, passage.sent_at, key, key in links, links.get(key)).line(context.tz)
    for line in (*context.chain, *context.transcript, context.turn):
        if source in line.provenance.source_ids:
            author, key = shown_name(line.speaker.name), line.message
            return Source(author, "", line.sent_at, key, key in links, links.get(key)).line(context.tz)
    return "what I was told about a person"


def citable(context: RequestContext) -> frozenset[MessageId]:
    """Return the messages of a context that an answer may cite."""
    lines = (*context.chain, *context.transcript, context.turn)
    return frozenset(line.message for line in lines) | {MessageId(int(each.key)) for each in context.passages}
