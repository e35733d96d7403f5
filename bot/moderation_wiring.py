"""Moderation put together: what intake is given, what runs its jobs, what commands share."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from bot.observability import Metrics
from bot.settings import PROJECT
from bot.tracing import traced
from core.act_ports import Acting as CanAct
from core.act_ports import ModerationPort
from core.chat.voice import Voice
from core.jobs.executor import AnyKind, Fault, Kind
from core.moderation.acting import Acting
from core.moderation.appeals import Appeals
from core.moderation.cards import CardKeeping, Cards
from core.moderation.casework import Casework
from core.moderation.desk import ModerationDesk
from core.moderation.fast.lane import FastLane
from core.moderation.informing import Informing
from core.moderation.judging import Judging
from core.moderation.lists import read_lists
from core.moderation.reversal import Reversal
from core.moderation.rulebook import Rulebook, read_defaults
from core.moderation.warden import Warden
from core.moderation.work import ActWork, CardWork, CaseWork, InformWork
from core.ports import Clock, FrontEnd
from core.state.service import StateService
from core.store.access import ReadableRooms

FOLDER = PROJECT / "data" / "moderation"


@dataclass(frozen=True, kw_only=True)
class ModerationParts:
    """What moderation is made from; one of each for the process."""

    clock: Clock
    readable: ReadableRooms
    voice: Voice
    front_ends: Mapping[str, FrontEnd]
    minds: StateService
    metrics: Metrics
    fault: Fault

    @cached_property
    def desk(self) -> ModerationDesk:
        """What commands and jobs share."""
        casework = Casework(rulebook=Rulebook(read_defaults(FOLDER / "rules.yaml")), clock=self.clock)
        removing = frozenset(name for name, port in self.ports.items() if port.ban_removes_words)
        cards = Cards(
            rulebook=casework.rulebook, readable=self.readable, voice=self.voice, clock=self.clock, removing=removing
        )
        lane = FastLane(lists=read_lists(FOLDER), score=lambda community_id, text: None, observe=self.metrics.observe)
        reversal = Reversal(self.minds)
        appeals = Appeals(reversal=reversal, clock=self.clock)
        return ModerationDesk(casework=casework, cards=cards, lane=lane, reversal=reversal, appeals=appeals)

    @cached_property
    def warden(self) -> Warden:
        """What looks at messages at intake."""
        return Warden(lane=self.desk.lane, casework=self.desk.casework, observe=self.metrics.observe)

    @cached_property
    def ports(self) -> Mapping[str, ModerationPort]:
        """What does acts, by front end."""
        return {name: each.acts for name, each in self.front_ends.items() if isinstance(each, CanAct)}

    def kinds(self) -> list[AnyKind]:
        """Return the kinds of jobs of moderation."""
        desk = self.desk
        acting = Acting(
            ports=self.ports,
            casework=desk.casework,
            cards=desk.cards,
            observe=self.metrics.observe,
            fault=self.fault,
        )
        informing = Informing(ports=self.ports, rulebook=desk.rulebook, voice=self.voice)
        judging = Judging(casework=desk.casework, cards=desk.cards)
        keeping = CardKeeping(front_ends=self.front_ends, cards=desk.cards)
        return [
            Kind(name="case", pool="chat", payload=CaseWork, run=traced(judging.run), timeout_s=60),
            Kind(name="act", pool="send", payload=ActWork, run=traced(acting.run), timeout_s=120),
            Kind(name="case_card", pool="send", payload=CardWork, run=traced(keeping.run), timeout_s=120),
            Kind(name="inform", pool="send", payload=InformWork, run=traced(informing.run), timeout_s=120),
        ]
