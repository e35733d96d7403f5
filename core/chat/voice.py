"""Stock messages, said by turns: each room hears all variants before one comes again."""

from core.domain.ids import RoomId
from core.prompt.stock import StockCatalog, StockKey, shuffled_index


class Voice:
    """The stock catalogue with a count per room and message; a restart begins the round anew."""

    __slots__ = ("_said", "_stock")

    def __init__(self, stock: StockCatalog) -> None:
        self._stock = stock
        self._said: dict[tuple[RoomId, StockKey], int] = {}

    def say(self, language: str, key: StockKey, room_id: RoomId, /, **values: str) -> str:
        """Return the next variant for this room, with `values` put in literally."""
        nth = self._said.get((room_id, key), 0)
        self._said[room_id, key] = nth + 1
        index = shuffled_index(f"{room_id}:{key}", nth, self._stock.count(language, key))
        return self._stock.pick(language, key, index, **values)
