"""Files beside archived messages: names, sizes, handles, what was read of them. Only this module writes the table.

Neither a file nor its address is kept: a handle is what its front end needs to ask for it anew.
"""

from collections.abc import Sequence

from core.domain.ids import MessageId
from core.domain.messages import Attachment
from core.store.engine import Tx
from core.store.words import clean

_ADD = """
insert into voidbot.attachments (message_id, ordinal, kind, name, mime, bytes, fetch_handle)
select $1, u.n - 1, u.kind, u.name, u.mime, u.bytes, u.handle
from unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[])
  with ordinality u(kind, name, mime, bytes, handle, n)
on conflict (message_id, ordinal) do update set kind = excluded.kind, name = excluded.name, mime = excluded.mime,
  bytes = excluded.bytes, fetch_handle = excluded.fetch_handle,
  caption = case when attachments.fetch_handle = excluded.fetch_handle then attachments.caption else '' end,
  extracted_text = case when attachments.fetch_handle = excluded.fetch_handle then attachments.extracted_text
                        else '' end"""


async def add(tx: Tx, message_id: MessageId, files: Sequence[Attachment]) -> None:
    """Note the files of a message in their order."""
    if files:
        await tx.execute(
            _ADD,
            message_id,
            [file.kind for file in files],
            [clean(file.name) for file in files],
            [clean(file.mime) for file in files],
            [max(0, file.size_bytes) for file in files],
            [clean(file.handle) for file in files],
        )


async def replace(tx: Tx, message_id: MessageId, files: Sequence[Attachment]) -> None:
    """Bring the files of a message to these; what was read of one that stays in its place stays too."""
    await tx.execute("delete from voidbot.attachments where message_id = $1 and ordinal >= $2", message_id, len(files))
    await add(tx, message_id, files)


async def remove(tx: Tx, messages: Sequence[MessageId]) -> None:
    """Forget the files of these messages with all that was read of them."""
    await tx.execute("delete from voidbot.attachments where message_id = any($1::bigint[])", messages)
