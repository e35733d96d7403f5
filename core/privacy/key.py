"""The erasure key: the one secret by which a ledger without names can tell whom it means.

It stands in a file outside the database, so that neither a dump nor the ledger gives an account away. Without it a
restored backup cannot be erased again.
"""

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.domain.errors import Misconfigured

KEY_BYTES = 32
KEY_FILE = "erasure.key"
"""Its name in the home folder."""
_NONCE_BYTES = 16


@dataclass(frozen=True, slots=True)
class ErasureKey:
    """The key, and all that is done with it."""

    secret: bytes = field(repr=False)

    @property
    def id(self) -> str:
        """A name for the key that gives nothing of it away."""
        return self._mac("key")[:16]

    def person(self, platform: str, account_ref: str) -> str:
        """Return the hash under which an account stands in the ledger."""
        return self._mac("person", platform, account_ref)

    def code(self, kind: str, code: str) -> str:
        """Return the hash under which a code is stored."""
        return self._mac("code", kind, code)

    def sign(self, *parts: str) -> str:
        """Return a signature of a result."""
        return self._mac("result", *parts)

    def seal(self, text: bytes) -> bytes:
        """Return the text so that nobody can read it without the key."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._mixed(nonce, text)

    def unseal(self, sealed: bytes) -> bytes:
        """Return what `seal` was given."""
        return self._mixed(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:])

    def _mixed(self, nonce: bytes, text: bytes) -> bytes:
        """Return the text added to a stream that the key and the nonce give; twice gives the text again."""
        stream = b"".join(
            hmac.digest(self.secret, b"seal" + nonce + block.to_bytes(8), "sha256")
            for block in range(-(-len(text) // hashlib.sha256().digest_size))
        )
        return bytes(one ^ other for one, other in zip(text, stream, strict=False))

    def _mac(self, *parts: str) -> str:
        # Lengths keep two parts from being read as one.
        message = "".join(f"{len(part)}:{part}" for part in parts).encode()
        return hmac.new(self.secret, message, "sha256").hexdigest()


def load_key(path: Path, written_by: Sequence[str]) -> ErasureKey:
    """Return the key of this installation; it is made where there is none and nothing rests on it yet.

    Args:
        path: Its file, readable by its owner alone.
        written_by: The ids of the keys that the ledger was written with.

    Raises:
        Misconfigured: The file is missing or of another key while erasures rest on it, or it cannot be read.
    """
    try:
        if not path.exists() and not written_by:
            _make(path)
        key = ErasureKey(bytes.fromhex(path.read_text(encoding="ascii").strip()))
    except FileNotFoundError as exc:
        raise Misconfigured(
            f"erasure key: {path} is missing, and erasures rest on it; put it back, or name its place with"
            " VOIDBOT_ERASURE_KEY"
        ) from exc
    except (OSError, ValueError) as exc:
        raise Misconfigured(f"erasure key: {path} cannot be read; it holds {KEY_BYTES} bytes as hex") from exc
    if len(key.secret) != KEY_BYTES:
        raise Misconfigured(f"erasure key: {path} does not hold {KEY_BYTES} bytes as hex")
    if written_by and key.id not in written_by:
        raise Misconfigured(
            f"erasure key: {path} is not the key of the erasures in this database; put the right one there, or name"
            " its place with VOIDBOT_ERASURE_KEY"
        )
    return key


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    half_made = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    half_made.touch(0o600, exist_ok=False)
    half_made.write_text(secrets.token_hex(KEY_BYTES) + "\n", encoding="ascii")
    try:
        path.hardlink_to(half_made)  # the first of two processes that start together makes it
    except FileExistsError:
        pass
    finally:
        half_made.unlink()
