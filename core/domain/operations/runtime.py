"""Operations of the clockwork: sleep, pressure to speak, mood, how passes went, and how the mind presents itself."""

from typing import ClassVar, Literal

from core.domain.mind.bodies import LastRun
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.facts import Emitter, Facts, Needs
from core.domain.mind.view import View
from core.domain.operations.base import Operation, ahead_or, key, origin, write


class RecordLastRun(Operation):
    """Record how a pass went last; one entry for each pass."""

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.PARENT})
    operation: Literal["record_last_run"] = "record_last_run"
    last_run: LastRun

    @property
    def _id(self) -> str:
        return f"run:{self.last_run.pass_}"

    def needs(self) -> Needs:
        """Return the entry of the pass, and the run."""
        return Needs(entries=frozenset({key("last_run", self._id)}), runs=frozenset({self.last_run.run_id}))

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether there was such a run."""
        if self.last_run.run_id not in facts.runs:
            return Rejected(RejectionCode.UNKNOWN_REFERENCE, "lastRun.runId", "is no run")
        return ahead_or(facts, "lastRun.ranAt", self.last_run.ran_at)

    def apply(self, view: View, facts: Facts) -> str:
        """Let it stand in place of the run before."""
        return write(view, self._id, self.last_run, facts, origin(facts))
