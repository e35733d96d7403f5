"""The passes put together: what runs them, and what plans them, from the parts of the process."""

from collections.abc import Mapping
from dataclasses import dataclass

from bot.observability import Metrics
from bot.settings import Settings
from bot.tracing import traced
from core.chat.guards import word_runs
from core.chat.likening import Likening
from core.chat.promises import Promises
from core.chat.voice import Voice
from core.domain.passes import PassName
from core.domain.prompt import Tier
from core.domain.sleeping import Schedule, read_schedule
from core.jobs.executor import AnyKind, Fault, Kind
from core.passes.asking import PassAsking
from core.passes.catalog.mood import MoodDrift
from core.passes.catalog.rumination import Rumination
from core.passes.catalog.sleep import Maintenance
from core.passes.catalog.upkeep import MindUpkeep
from core.passes.gate import Gate
from core.passes.planning import Planner
from core.passes.runner import POOL, PassSpec, PassWork, Runner
from core.passes.speak import Speaking
from core.ports import Clock
from core.prompt.builder import PromptBuilder
from core.prompt.catalog import Catalog
from core.providers.router import Router
from core.state.service import StateService
from core.store.access import ReadableRooms
from core.store.engine import Database

SPARE_S = 60.0
"""By how much a phase may be longer than its slowest call, and a job than its phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassParts:
    """What passes are made from; the same parts as everything else in the process."""

    settings: Settings
    database: Database
    clock: Clock
    catalog: Catalog
    readable: ReadableRooms
    minds: StateService
    router: Router
    voice: Voice
    promises: Promises
    likening: Likening
    metrics: Metrics
    fault: Fault

    @property
    def planner(self) -> Planner:
        """What claims slots that are due."""
        settings = self.settings
        return Planner(policy=settings.passes.policy, archive=settings.archive.policy, groups=self.minds.loader.groups)

    @property
    def kind(self) -> AnyKind:
        """The kind of job that goes through phases. Limits nest: the outer one never fires first."""
        routes = [route for tier in Tier if (route := self.router.route(tier)) is not None]
        phase_s = SPARE_S + max((route.longest_s for route in routes), default=0.0)
        runner = Runner(
            specs=self._specs(), clock=self.clock, observe=self.metrics.observe, phase_s=phase_s, fault=self.fault
        )
        return Kind(name="pass", pool=POOL, payload=PassWork, run=traced(runner.run), timeout_s=phase_s + SPARE_S)

    def _specs(self) -> Mapping[PassName, PassSpec]:
        settings, minds, clock = self.settings, self.minds, self.clock
        groups = minds.loader.groups
        gate = Gate(policy=settings.passes.policy, archive=settings.archive.policy, groups=groups, clock=clock)
        asking = self._asking()
        rumination = Rumination(
            gate=gate,
            asking=asking,
            minds=minds,
            likening=self.likening,
            clock=clock,
            speak=self._speaking(gate).phase(),
        )
        specs = (
            rumination.spec(),
            MoodDrift(gate=gate, minds=minds, groups=groups, clock=clock, schedule=self._schedule).spec(),
            Maintenance(gate=gate, asking=asking, minds=minds, likening=self.likening, clock=clock).spec(),
            MindUpkeep(gate=gate, minds=minds, clock=clock, observe=self.metrics.observe).spec(),
        )
        return {spec.name: spec for spec in specs}

    def _asking(self) -> PassAsking:
        return PassAsking(
            database=self.database,
            clock=self.clock,
            builder=PromptBuilder(self.catalog.templates),
            catalog=self.catalog,
            router=self.router,
            observe=self.metrics.observe,
        )

    def _speaking(self, gate: Gate) -> Speaking:
        return Speaking(
            gate=gate,
            minds=self.minds,
            readable=self.readable,
            voice=self.voice,
            promises=self.promises,
            rules=self.settings.passes.speech,
            likening=self.likening,
            system_runs=word_runs(self.catalog.roles["rumination"].body),
            operators=self.settings.operators,
        )

    def _schedule(self, zone: str) -> Schedule:
        passes = self.settings.passes
        return read_schedule(passes.sleep_times, passes.sleep_zone or zone)
