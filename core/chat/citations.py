"""How a source is named to who asked: author, room and time, or file and lines, and the way there if it is open."""

from collections.abc import Mapping

from core.domain.ids import MessageId
from core.domain.prompt import Excerpt, RequestContext, SourceId, SourceKind
from core.domain.speech import ReceiptSource
from core.prompt.fences import shown_name
from core.providers.quotes import FileSource, Quote, Source
from core.retrieval.lore import LoreHit
from core.retrieval.service import Hit
from core.store.archive import ArchivedMessage

Links = Mapping[MessageId, str | None]
"""The messages that the asker may open now, each with its link, or None where its platform has none."""


def quote_of(message: ArchivedMessage, links: Links) -> Quote:
    """Return an archived message as a quotation."""
    author, room = shown_name(message.author_name), shown_name(message.room_name)
    opens = message.id in links
    return Quote(Source(author, room, message.sent_at, message.id, opens, links.get(message.id)), message.text)


def quote_of_hit(hit: Hit | LoreHit, links: Links) -> Quote:
    """Return what a search found as a quotation: a whole message, or the lines of a file that say most."""
    if isinstance(hit, Hit):
        return quote_of(hit.message, links)
    return Quote(FileSource(hit.told.place, hit.told.link), hit.told.text)


def receipt_of(hit: Hit | LoreHit) -> ReceiptSource:
    """Return what a quotation rests on, as a receipt keeps it."""
    if isinstance(hit, Hit):
        return ReceiptSource(SourceKind.MESSAGE, str(hit.message.id), hit.message.sources)
    return ReceiptSource(SourceKind.FILE, str(hit.told.ref), hit.audience)


def cited_line(context: RequestContext, source: SourceId, links: Links) -> str:
    """Return the line of a cited source; only what stood in the prompt can be cited."""
    for passage in context.passages:
        if isinstance(passage, Excerpt):
            if source in passage.provenance.source_ids:
                return FileSource(passage.place, passage.link).line(context.tz)
        elif source.kind is SourceKind.PASSAGE and passage.key == source.key:
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
    found = (MessageId(int(each.key)) for each in context.passages if not isinstance(each, Excerpt))
    return frozenset(line.message for line in lines).union(found)
