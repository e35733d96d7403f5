"""The only fakes: they implement ports, and mypy holds them to it."""

import hashlib
import math
import re
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from core.act_ports import ActResult, ModerationPort, NativeEvents
from core.domain.errors import OutsideRefused, Refused, Unavailable
from core.domain.ids import RoomKey
from core.domain.messages import InboundMessage, MessageKind
from core.domain.moderation.acts import Act, ActKind, Done, Joined, NativeAct, RoomSettings, Standing
from core.domain.platforms import CommunityReport, LastHeard
from core.domain.prompt import Completion, Delta, Finish, ModelRequest, Usage
from core.domain.rooms import RoomKind
from core.domain.vectors import EmbeddingModel, Vector
from core.ports import (
    Accept,
    Ambiguous,
    Clock,
    Delivered,
    Embedder,
    FrontEnd,
    ModelProvider,
    OutgoingPart,
    PlatformMemory,
    SendResult,
)
from core.store.engine import Database
from core.store.leases import CHANNEL


class ManualClock(Clock):
    """Real time plus a shift that tests set; the shift of SQL's clock moves with it."""

    def __init__(self, database: Database | None = None) -> None:
        self._database = database
        self._shift = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self._shift  # noqa: TID251  # this is the Clock port

    def monotonic(self) -> float:
        return time.monotonic() + self._shift.total_seconds()

    async def advance(self, seconds: float) -> None:
        self._shift += timedelta(seconds=seconds)
        if self._database is not None:
            async with self._database.transaction() as tx:
                await tx.execute("update voidbot_test.clock set shift = $1", self._shift)
                # What became due by it is looked for at once, as it is where time passes by itself.
                await tx.execute(f"notify {CHANNEL}, 'due'")


@dataclass(frozen=True, slots=True)
class Shown:
    """A message as a person in the room would see it: its latest text."""

    id: str
    part: OutgoingPart
    edits: int = 0

    @property
    def text(self) -> str:
        return self.part.text.text


EVERY_ACT = frozenset(ActKind)


class RecordingActs(ModerationPort):
    """What a platform does to members, in memory: keeps each call, knows who stands how, misbehaves by script.

    `standing`: of whom something else is true than that they are plain members. `gone`: messages that are not there.
    `results`: what `do` answers instead of doing it, first come first. `lost`: so many are done and not confirmed.
    `directs`: who can be written to, with their room. `down`: it does not answer a look; `gone_after`: once it acted.
    """

    def __init__(self, name: str = "console", *, removes: bool = False) -> None:
        self._name, self._removes = name, removes
        self.done: list[Act] = []
        self.looks = 0
        self.standing: dict[str, Standing] = {}
        self.gone: set[str] = set()
        self.results: deque[ActResult] = deque()
        self.lost = 0
        self.directs: dict[str, RoomKey] = {}
        self.room = RoomSettings()
        self.natives: list[NativeAct] = []
        self.down = False
        self.gone_after = False

    @property
    def name(self) -> str:
        return self._name

    @property
    def can(self) -> frozenset[ActKind]:
        return EVERY_ACT

    @property
    def ban_removes_words(self) -> bool:
        return self._removes

    async def look(self, act: Act) -> Standing:
        self.looks += 1
        if self.down:
            raise Unavailable("platform: it does not answer")
        held = self.standing.get(act.account_ref, Standing(there=True, allowed=EVERY_ACT))
        return replace(held, message_there=act.message_ref not in self.gone if act.message_ref else None)

    async def do(self, act: Act) -> ActResult:
        if self.results:
            return self.results.popleft()
        self.done.append(act)
        self.down = self.down or self.gone_after
        held = self.standing.get(act.account_ref, Standing(there=True, allowed=EVERY_ACT))
        match act.kind:
            case ActKind.DELETE:
                self.gone.add(act.message_ref)
            case ActKind.TIMEOUT | ActKind.LIFT_TIMEOUT:
                self.standing[act.account_ref] = replace(held, timed_out_until=act.until)
            case ActKind.BAN | ActKind.UNBAN:
                self.standing[act.account_ref] = replace(held, banned=act.kind is ActKind.BAN, there=False)
            case ActKind.KICK:
                self.standing[act.account_ref] = replace(held, there=False)
            case _:
                pass
        if self.lost:
            self.lost -= 1
            return Ambiguous("the answer was lost")
        return Done()

    async def settings(self, room: RoomKey, community_ref: str) -> RoomSettings:
        return self.room

    async def open_direct(self, account_ref: str) -> RoomKey | None:
        return self.directs.get(account_ref)

    async def native_since(self, community_ref: str, since: datetime) -> Sequence[NativeAct]:
        return [each for each in self.natives if each.at >= since]


class RecordingFrontEnd(FrontEnd):
    """A platform in memory: keeps what it shows, folds nonces or not, and misbehaves by script.

    `results`: what `send` answers instead of delivering, first come first. A `lost` answer is shown and
    then said to be ambiguous. `history`: whether own messages can be read back. `files`: what can be fetched, or
    why it cannot, by handle.
    """

    def __init__(
        self,
        name: str = "console",
        *,
        nonce_window: timedelta | None = timedelta(days=3650),
        history: bool = True,
        stream_every_s: float | None = None,
        limit: int = 2000,
        acts: bool = True,
    ) -> None:
        self._name, self._window, self._every, self._limit = name, nonce_window, stream_every_s, limit
        self._history = history
        self.shown: dict[str, Shown] = {}
        self.results: deque[SendResult] = deque()
        self.edit_results: deque[SendResult] = deque()
        self.lost = 0
        self.typing: list[RoomKey] = []
        self.calls: list[tuple[str, OutgoingPart]] = []
        self.before_send: Callable[[], None] = lambda: None
        self.files: dict[str, bytes | Exception] = {}
        self.fetched: list[str] = []
        if acts:  # without it, it is a platform on which nothing can be done to members
            self.acts = RecordingActs(name)

    @property
    def name(self) -> str:
        return self._name

    @property
    def nonce_window(self) -> timedelta | None:
        return self._window

    @property
    def stream_every_s(self) -> float | None:
        return self._every

    @property
    def text_limit(self) -> int:
        return self._limit

    def split(self, text: str) -> Sequence[str]:
        return [text[at : at + self._limit] for at in range(0, len(text), self._limit)] or [""]

    async def send(self, part: OutgoingPart) -> SendResult:
        self.calls.append(("send", part))
        self.before_send()
        if self.results:
            return self.results.popleft()
        external_id = self._find(part) if self._window is not None else None
        if external_id is None:
            external_id = f"s{len(self.shown) + 1}"
            self.shown[external_id] = Shown(external_id, part)
        if self.lost:
            self.lost -= 1
            return Ambiguous("the answer was lost")
        return Delivered(external_id)

    async def find_sent(self, part: OutgoingPart, since: datetime) -> str | Ambiguous | None:
        self.calls.append(("find", part))
        return self._find(part) if self._history else Ambiguous("no history")

    async def edit(self, external_id: str, part: OutgoingPart) -> SendResult:
        self.calls.append(("edit", part))
        if self.edit_results:
            return self.edit_results.popleft()
        before = self.shown[external_id]
        self.shown[external_id] = replace(before, part=part, edits=before.edits + 1)
        return Delivered(external_id)

    async def close_choices(self, room: RoomKey, external_id: str) -> SendResult:
        if self.edit_results:
            return self.edit_results.popleft()
        before = self.shown[external_id]
        self.shown[external_id] = replace(before, part=replace(before.part, choices=()), edits=before.edits + 1)
        return Delivered(external_id)

    async def show_typing(self, room: RoomKey) -> None:
        self.typing.append(room)

    async def fetch(self, room: RoomKey, handle: str, limit_bytes: int) -> bytes:
        self.fetched.append(handle)
        found = self.files.get(handle, OutsideRefused("test: no such file"))
        if isinstance(found, bytes):
            if len(found) > limit_bytes:
                raise OutsideRefused("test: too large")
            return found
        raise found

    async def close(self) -> None:
        """Hold nothing."""

    def silent_s(self) -> float | None:
        return None

    async def run(self, accept: Accept) -> None:
        """Take in nothing: tests call `accept` themselves."""

    def _find(self, part: OutgoingPart) -> str | None:
        return next((each.id for each in self.shown.values() if each.part.nonce == part.nonce), None)

    def texts(self) -> list[str]:
        return [each.text for each in self.shown.values()]


async def _nothing() -> None:
    """Let nothing happen."""


class ScriptedModel(ModelProvider):
    """A model that answers at once from a function of the request. `meanwhile`: what happens while it thinks."""

    def __init__(self, answer: Callable[[ModelRequest], str] = lambda request: "Certainly.") -> None:
        self._answer = answer
        self.meanwhile: Callable[[], Awaitable[None]] = _nothing
        self.requests: list[ModelRequest] = []

    @property
    def model(self) -> str:
        return "scripted"

    async def complete(self, request: ModelRequest) -> Completion:
        self.requests.append(request)
        await self.meanwhile()
        return Completion(self._answer(request), Usage(100, 10), self.model, Finish.STOP)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        completion = await self.complete(request)
        for word in completion.text.splitlines(keepends=True):
            yield Delta(word)
        yield Delta(completion=completion)

    async def aclose(self) -> None:
        """Have nothing to close."""


class WordEmbedder(Embedder):
    """Texts that share words are alike: each word is one direction, drawn from its hash.

    `alike`: words that count as others. `down`: what every call raises. `refused`: texts with this word are not taken.
    """

    def __init__(self, name: str = "words", dimension: int = 384, alike: dict[str, str] | None = None) -> None:
        self._model = EmbeddingModel(name, dimension)
        self._alike = alike or {}
        self.down: Exception | None = None
        self.refused = ""
        self.texts: list[str] = []

    @property
    def model(self) -> EmbeddingModel:
        return self._model

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        if self.down is not None:
            raise self.down
        if self.refused and any(self.refused in text for text in texts):
            raise Refused("test: this text is not taken")
        self.texts += texts
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> Vector:
        numbers = [0.0] * self._model.dimension
        for word in re.findall(r"\w+", text.casefold()) or [""]:
            drawn = hashlib.sha256(self._alike.get(word, word).encode()).digest()
            numbers[int.from_bytes(drawn[:4], "big") % len(numbers)] += 1.0
        length = math.hypot(*numbers)
        return tuple(number / length for number in numbers)


class RememberingEvents(NativeEvents):
    """Who is told of joins and acts of others: keeps all of it, and may be `down`."""

    def __init__(self) -> None:
        self.joins: list[Joined] = []
        self.acts: list[NativeAct] = []
        self.down = False

    async def joined(self, event: Joined) -> None:
        self._ask()
        self.joins.append(event)

    async def acted(self, event: NativeAct) -> None:
        self._ask()
        self.acts.append(event)

    def _ask(self) -> None:
        if self.down:
            raise Unavailable("store: down")


class RememberingPlatform(PlatformMemory):
    """What front ends must not forget, in memory: every call is kept, and the store may be `down`.

    `told`: what happened, in order, as (what, about whom). `hear` stands for what `accept` would store.
    """

    def __init__(self) -> None:
        self.reports: list[CommunityReport] = []
        self.told: list[tuple[str, object]] = []
        self.values: dict[str, str] = {}
        self.starts: Counter[str] = Counter()
        self.last: dict[RoomKey, LastHeard] = {}
        self.doubted: list[Sequence[str] | None] = []
        self.gaps: dict[RoomKey, str] = {}
        self.kept: dict[RoomKey, Sequence[str]] = {}
        self.down = False
        self.leaders: set[str] = set()

    def hear(self, message: InboundMessage) -> None:
        """Take down a message as the newest of its room."""
        if message.kind is MessageKind.TEXT:
            kind = RoomKind.CHANNEL if message.surroundings is None else message.surroundings.kind
            self.last[message.room] = LastHeard(message.room, message.message_id, message.sent_at, kind)

    def _ask(self) -> None:
        if self.down:
            raise Unavailable("store: down")

    def newest(self, ref: str) -> CommunityReport:
        """Return the last whole report of a community."""
        return next(report for report in reversed(self.reports) if report.ref == ref and report.whole)

    async def learn(self, report: CommunityReport) -> None:
        self._ask()
        self.reports.append(report)

    async def doubt(self, platform: str, refs: Sequence[str] | None = None) -> None:
        self._ask()
        self.doubted.append(refs)

    async def begin_gap(self, room: RoomKey, after: str) -> None:
        self._ask()
        self.gaps[room] = after

    async def end_gap(self, room: RoomKey) -> None:
        self._ask()
        self.gaps.pop(room, None)

    async def forget_room(self, room: RoomKey) -> None:
        self._ask()
        self.last.pop(room, None)
        self.told.append(("room gone", room))

    async def forget_community(self, platform: str, ref: str) -> None:
        self._ask()
        self.told.append(("community gone", ref))

    async def leave(self, platform: str, community_ref: str, account_ref: str) -> None:
        self._ask()
        self.told.append(("left", (community_ref, account_ref)))

    async def move(self, old: RoomKey, new: RoomKey) -> None:
        self._ask()
        self.told.append(("moved", (old, new)))

    async def last_kept(self, room: RoomKey, limit: int) -> Sequence[str]:
        self._ask()
        return self.kept.get(room, ())[:limit]

    async def last_heard(self, platform: str) -> Sequence[LastHeard]:
        self._ask()
        return [one for one in self.last.values() if one.room.platform == platform]

    async def recall(self, name: str) -> str | None:
        self._ask()
        return self.values.get(name)

    async def remember(self, name: str, value: str) -> None:
        self._ask()
        self.values[name] = value

    async def count_start(self, account: str) -> int:
        self._ask()
        self.starts[account] += 1
        return self.starts[account]

    @asynccontextmanager
    async def lead(self, key: str, waiting: Callable[[], None]) -> AsyncIterator[None]:
        if key in self.leaders:
            waiting()
            raise Unavailable("another has it")
        self.leaders.add(key)
        try:
            yield
        finally:
            self.leaders.discard(key)
