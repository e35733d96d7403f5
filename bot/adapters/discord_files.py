"""Files beside messages, fetched from the platform's own hosts only, within a size and a time."""

import aiohttp
from yarl import URL

OWN_HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})
FETCH_S = 10.0


class Files:
    """Fetches. `cdn_url`: the one host instead of the platform's own, for another server that speaks its protocol."""

    def __init__(self, cdn_url: str = "") -> None:
        self._origin = URL(cdn_url).origin() if cdn_url else None

    def is_own(self, address: str) -> bool:
        """Return whether an address belongs to the platform."""
        try:
            url = URL(address)
            if self._origin is not None:
                return url.origin() == self._origin
        except ValueError:
            return False
        return url.scheme == "https" and url.host in OWN_HOSTS and url.port == 443 and url.user is None

    async def fetch(self, address: str, limit_bytes: int) -> bytes | str:
        """Return the file, or why there is none."""
        if not self.is_own(address):
            return "not read: it is not at the platform"
        timeout = aiohttp.ClientTimeout(total=FETCH_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(URL(address, encoded=True), allow_redirects=False) as answer,
            ):
                if answer.status != 200:
                    return f"not read: status {answer.status}"
                found = bytearray()
                async for piece in answer.content.iter_chunked(1 << 16):
                    found += piece
                    if len(found) > limit_bytes:
                        return f"not read: over the {limit_bytes // 1024} KB limit"
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
            return "not read: it could not be fetched"
        return bytes(found)
