"""The door to Qdrant: its library is loaded only where an address is set."""

from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit

from pydantic import SecretStr

from core.domain.errors import Misconfigured
from core.ports import VectorStore

INSTALL = "pip install --require-hashes --no-deps -r requirements-qdrant.lock"


class RemoteVectorStore(VectorStore, Protocol):
    """A store that holds connections until it is closed."""

    async def close(self) -> None:
        """Close the connections."""
        ...


def open_qdrant(
    url: str, api_key: SecretStr | None, *, guard: Callable[[], None], nodes: int = 1, timeout_s: int = 5
) -> RemoteVectorStore:
    """Return a store on this server or cluster; nothing is asked of it yet.

    Args:
        url: Its address for HTTP; without a port, 6333.
        api_key: Sent with every request; None where the server wants none.
        guard: Called before each request; raises while a transaction is open.
        nodes: How many servers share the vectors; from two on each vector is kept twice.
        timeout_s: How long one request may take.

    Raises:
        Misconfigured: The address is none, no header can carry the key, or the extra `qdrant` is not installed.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Misconfigured("QDRANT_URL: must start with http:// or https:// and name a host")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Misconfigured("QDRANT_URL: takes host, port and path alone; the key goes into QDRANT_API_KEY")
    key = None if api_key is None else api_key.get_secret_value()
    if key is not None and not (key and key.isascii() and key.isprintable() and key == key.strip()):
        raise Misconfigured("QDRANT_API_KEY: holds characters that no header can carry; copy it anew")
    try:
        from core.providers import qdrant_points
    except ImportError as exc:
        raise Misconfigured("qdrant: its library is not installed", install=INSTALL) from exc
    return qdrant_points.QdrantStore(qdrant_points.client_of(url, key, timeout_s), guard=guard, nodes=nodes)
