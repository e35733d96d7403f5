"""What a server says of itself to whoever examines it: version, extensions, time. Only reads."""

from dataclasses import dataclass
from datetime import datetime

from core.store.engine import Tx
from core.store.server_check import EXTENSIONS

_FACTS = """
select pg_catalog.current_setting('server_version') as version,
       (select coalesce(string_agg(extname || ' ' || extversion, ', ' order by extname), '')
        from pg_catalog.pg_extension where extname = any($1::text[])) as extensions"""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The server's version and the extensions that we use, each with its own."""

    version: str
    extensions: str


async def load_facts(tx: Tx) -> ServerFacts:
    """Return what the server says of itself."""
    row = await tx.fetchrow(_FACTS, EXTENSIONS)
    if row is None:
        raise LookupError("the server answers nothing")
    return ServerFacts(row["version"].partition(" ")[0], row["extensions"])


async def present(tx: Tx) -> datetime:
    """Return the present of SQL, when this transaction began."""
    at: datetime = await tx.fetchval("select voidbot.now()")
    return at
