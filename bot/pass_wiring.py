"""The passes put together: what runs them, and what plans them, from the parts of the process."""

from collections.abc import Mapping
from dataclasses import dataclass

from bot.observability import Metrics
from bot.settings import Settings
from bot.tracing import traced
from core.domain.passes import PassName
from core.domain.prompt import Tier
from core.domain.sleeping import Schedule, read_schedule
from core.jobs.executor import AnyKind, Fault, Kind
from core.passes.catalog.mood import MoodDrift
from core.passes.gate import Gate
from core.passes.planning import Planner
from core.passes.runner import POOL, PassSpec, PassWork, Runner
from core.ports import Clock
from core.providers.router import Router
from core.state.service import StateService

SPARE_S = 60.0
"""By how much a phase may be longer than its slowest call, and a job than its phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassParts:
    """What passes are made from; the same parts as everything else in the process."""

    settings: Settings
    clock: Clock
    minds: StateService
    router: Router
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
        settings, groups = self.settings, self.minds.loader.groups
        gate = Gate(policy=settings.passes.policy, archive=settings.archive.policy, groups=groups, clock=self.clock)
        mood = MoodDrift(gate=gate, minds=self.minds, groups=groups, clock=self.clock, schedule=self._schedule)
        return {spec.name: spec for spec in (mood.spec(),)}

    def _schedule(self, zone: str) -> Schedule:
        passes = self.settings.passes
        return read_schedule(passes.sleep_times, passes.sleep_zone or zone)
