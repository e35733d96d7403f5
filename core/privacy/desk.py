"""What commands about oneself need beside the transaction: the key, a way to tell others, the folder of files."""

from dataclasses import dataclass
from pathlib import Path

from core.privacy.hand import Tell
from core.privacy.key import ErasureKey


@dataclass(frozen=True, slots=True)
class Desk:
    """Given to handlers. `home`: the folder in which exports are made."""

    key: ErasureKey
    tell: Tell
    home: Path
