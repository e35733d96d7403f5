"""The queue as a dict of lists: the twin that the state machine compares the database with."""

from dataclasses import dataclass, field
from uuid import UUID

from core.domain.jobs import FAIRNESS_PENALTY_S


@dataclass
class ModelJob:
    id: int
    lane: str
    head_start: float
    due_at: float
    max_attempts: int
    yields: bool
    key: str | None = None
    scope: int = 0
    attempt: int = 0
    snoozed: int = 0

    @property
    def rank(self) -> float:
        return self.due_at - self.head_start


@dataclass
class ModelLane:
    """A lane with jobs. The first of `jobs` is its head; the other values are the head's."""

    community: int
    jobs: list[ModelJob] = field(default_factory=list)
    state: str = "ready"
    pinned: bool = False
    attempt: int = 0
    snoozed: int = 0
    worker: UUID | None = None
    wake_at: float | None = None
    cancel: bool = False

    def unpin(self) -> None:
        self.state, self.pinned, self.attempt, self.snoozed = "ready", False, 0, 0
        self.worker, self.wake_at, self.cancel = None, None, False

    def back_to_ready(self) -> None:
        self.state, self.worker, self.wake_at = "ready", None, None


@dataclass(frozen=True)
class ModelClaim:
    id: int
    lane: str
    attempt: int
    worker: UUID


class Model:
    """Each method is one function of the queue; the caller gives ids and workers as the database chose them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lanes: dict[str, ModelLane] = {}
        self.later: dict[int, ModelJob] = {}
        self.keys: dict[str, tuple[int, int]] = {}
        self.workers: dict[UUID, float] = {}
        self.ends: dict[int, list[str]] = {}
        self.dead: dict[int, ModelJob] = {}

    def enqueue(self, job: ModelJob, community: int) -> None:
        if job.key is not None:
            self.keys[job.key] = (job.scope, job.id)
        if job.due_at > self.now:
            self.later[job.id] = job
        else:
            self._enter(job, community)

    def _enter(self, job: ModelJob, community: int) -> None:
        self.lanes.setdefault(job.lane, ModelLane(community)).jobs.append(job)

    def chosen(self, slots: int) -> list[str]:
        """The lanes that a claim must take, best first."""
        running: dict[int, int] = {}
        ready: dict[int, list[tuple[float, str]]] = {}
        for name, lane in self.lanes.items():
            if lane.state == "running":
                running[lane.community] = running.get(lane.community, 0) + 1
            elif lane.state == "ready":
                ready.setdefault(lane.community, []).append((lane.jobs[0].rank, name))
        scored = [
            (rank + FAIRNESS_PENALTY_S * (running.get(community, 0) + nth), name)
            for community, lanes in ready.items()
            for nth, (rank, name) in enumerate(sorted(lanes))
        ]
        return [name for _, name in sorted(scored)[:slots]]

    def claim(self, worker: UUID, slots: int) -> list[ModelClaim]:
        claims = []
        for name in self.chosen(slots):
            lane = self.lanes[name]
            head = lane.jobs[0]
            if not lane.pinned:
                lane.attempt, lane.snoozed = head.attempt, head.snoozed
            lane.state, lane.pinned, lane.worker, lane.cancel = "running", True, worker, False
            lane.attempt += 1
            self._forget_key(head, 1)
            claims.append(ModelClaim(head.id, name, lane.attempt, worker))
        return claims

    def held(self, claim: ModelClaim) -> ModelLane | None:
        lane = self.lanes.get(claim.lane)
        if lane is None or lane.state != "running" or lane.jobs[0].id != claim.id:
            return None
        return lane if (lane.attempt, lane.worker) == (claim.attempt, claim.worker) else None

    def settle(self, claim: ModelClaim, outcome: str, delay: float) -> str | None:
        lane = self.held(claim)
        if lane is None:
            return None
        head = lane.jobs[0]
        ends = {"ok": "done", "cancel": "cancelled", "discard": "discarded", "dead": "dead"}
        if outcome in ends:
            return self._end(lane, head, ends[outcome])
        if lane.cancel:
            return self._end(lane, head, "cancelled")
        if outcome == "retry" and lane.attempt - lane.snoozed >= head.max_attempts:
            return self._end(lane, head, "dead")
        lane.snoozed += int(outcome == "snooze")
        if head.yields:
            head.attempt, head.snoozed, head.due_at = lane.attempt, lane.snoozed, self.now + delay
            self.later[head.id] = head
            self._next(lane)
        elif delay > 0:
            lane.state, lane.worker, lane.wake_at = "waiting", None, self.now + delay
        else:
            lane.back_to_ready()
        return "waiting"

    def _end(self, lane: ModelLane, job: ModelJob, verdict: str) -> str:
        self._finish(job, verdict)
        if verdict == "dead":
            self.dead[job.id] = job
        self._next(lane)
        return verdict

    def _finish(self, job: ModelJob, verdict: str) -> None:
        self.ends.setdefault(job.id, []).append(verdict)
        self._forget_key(job, 2)

    def _forget_key(self, job: ModelJob, scope: int) -> None:
        if job.key is not None and self.keys.get(job.key) == (scope, job.id):
            del self.keys[job.key]

    def _next(self, lane: ModelLane) -> None:
        gone = lane.jobs.pop(0)
        lane.unpin()
        if not lane.jobs:
            del self.lanes[gone.lane]

    def cancel(self, job_id: int) -> str:
        if job_id in self.later:
            job = self.later.pop(job_id)
            self._forget_key(job, 1)
            self._finish(job, "cancelled")
            return "cancelled"
        for name, lane in self.lanes.items():
            for nth, job in enumerate(lane.jobs):
                if job.id != job_id:
                    continue
                if nth == 0 and lane.state == "running":
                    lane.cancel = True
                    return "requested"
                self._forget_key(job, 1)
                self._finish(job, "cancelled")
                if nth == 0:
                    self._next(lane)
                else:
                    lane.jobs.remove(job)
                    assert name in self.lanes
                return "cancelled"
        return "unknown"

    def tick_due(self, communities: dict[str, int]) -> int:
        due = sorted((job.due_at, job.id) for job in self.later.values() if job.due_at <= self.now)
        for _, job_id in due:
            job = self.later.pop(job_id)
            self._enter(job, communities[job.lane])
        return len(due)

    def tick_waiting(self) -> int:
        woken = [
            lane
            for lane in self.lanes.values()
            if lane.state == "waiting" and lane.wake_at is not None and lane.wake_at <= self.now
        ]
        for lane in woken:
            lane.back_to_ready()
        return len(woken)

    def tick_lost(self, ticker: UUID, dead_after: float) -> list[ModelClaim]:
        for worker, beat_at in list(self.workers.items()):
            if beat_at < self.now - dead_after and worker != ticker:
                del self.workers[worker]
        adopted = []
        for name, lane in list(self.lanes.items()):
            if lane.state != "running" or lane.worker in self.workers:
                continue
            head = lane.jobs[0]
            if lane.cancel:
                self._end(lane, head, "cancelled")
            elif lane.attempt - lane.snoozed >= head.max_attempts:
                lane.worker = ticker
                adopted.append(ModelClaim(head.id, name, lane.attempt, ticker))
            else:
                lane.back_to_ready()
        return adopted

    def requeue(self, job_id: int, communities: dict[str, int]) -> str:
        job = self.dead.get(job_id)
        if job is None:
            return "unknown"
        if job.key is not None:
            if self.keys.get(job.key, (0, job_id))[1] != job_id:
                return "key_taken"
            self.keys.setdefault(job.key, (job.scope, job_id))
        del self.dead[job_id]
        job.attempt, job.snoozed, job.due_at = 0, 0, self.now
        self._enter(job, communities[job.lane])
        return "requeued"
