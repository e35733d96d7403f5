"""The only configuration of logs and metrics.

Its law: a log line is one event with fields; it holds no secret, no one's words and no local variables.
Every line carries the correlation id given at intake, which is the job's trace.
"""

import logging
import logging.handlers
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from bot.redaction import Redactor

if sys.platform != "win32":
    import resource

LOG_BYTES = 10 * 1024**2
LOG_FILES = 5
# They log each query, request or tick at INFO; what matters of it is an event of ours.
_QUIET = (
    "aiohttp.access",
    "alembic",
    "apscheduler",
    "asyncio",
    "discord",
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
    "openai",
    "telegram",
    "anthropic",
)


def configure_logs(
    *,
    level: str = "info",
    form: str = "json",
    file: Path | None = None,
    stream: TextIO | None = None,
    secrets: Iterable[str] = (),
) -> logging.Handler:
    """Send every log line of the process to one place and return its handler; the caller closes it.

    Args:
        level: `debug`, `info`, `warning` or `error`.
        form: `json` for one object a line, `console` for people.
        file: A file, 0600 and rotated, for when a terminal chat has the screen.
        stream: Where lines go without a file; None is standard error.
        secrets: Values that are hidden wherever they appear.
    """
    redactor = Redactor(secrets)

    def redact(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return redactor.fields(event)

    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        # Plain text: the richer renderers print local variables, which hold messages and keys.
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    shown: structlog.typing.Processor
    if form == "json":
        shown = structlog.processors.JSONRenderer(default=str)
    else:
        plain = structlog.dev.plain_traceback
        shown = structlog.dev.ConsoleRenderer(colors=file is None, exception_formatter=plain)
    handler = _file_handler(file) if file is not None else logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, redact, shown],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    return handler


def _file_handler(file: Path) -> logging.Handler:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    return logging.handlers.RotatingFileHandler(file, maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8")


@contextmanager
def correlated(correlation_id: str, **fields: object) -> Iterator[None]:
    """Have every line logged inside carry this id and these fields, in the tasks started inside too."""
    with structlog.contextvars.bound_contextvars(correlation_id=correlation_id, **fields):
        yield


class Form(StrEnum):
    """What a metric does with a value: adds it, keeps the last one, or counts it into buckets."""

    COUNTER = "counter"
    GAUGE = "gauge"
    TIMES = "times"
    RATIO = "ratio"


@dataclass(frozen=True, slots=True)
class Metric:
    """One series family; it is shown with the prefix `voidbot_`."""

    name: str
    form: Form
    what: str
    labels: tuple[str, ...] = ()


METRICS: tuple[Metric, ...] = (
    Metric("intake_total", Form.COUNTER, "events taken in", ("platform", "kind", "result")),
    Metric("archive_skipped_total", Form.COUNTER, "messages that were not archived", ("reason",)),
    Metric("decisions_total", Form.COUNTER, "whether an answer will come", ("outcome", "reason")),
    Metric("units_written_total", Form.COUNTER, "units of the index made or made anew"),
    Metric("vectors_written_total", Form.COUNTER, "vectors made for units"),
    Metric("mind_verified_total", Form.COUNTER, "minds told anew from their journal", ("result",)),
    Metric("duplicates_total", Form.COUNTER, "events that were known already"),
    Metric("model_calls_total", Form.COUNTER, "calls to models", ("model", "purpose", "result")),
    Metric("model_tokens_total", Form.COUNTER, "tokens sent and received", ("model", "purpose", "direction")),
    Metric("model_cost_usd_total", Form.COUNTER, "dollars spent on models"),
    Metric("estimate_error_ratio", Form.RATIO, "estimated tokens by real ones"),
    Metric("guards_total", Form.COUNTER, "answers that a guard changed or refused", ("guard",)),
    Metric("outbox_total", Form.COUNTER, "parts of answers by what became of them", ("platform", "state")),
    Metric("delivery_postcondition_total", Form.COUNTER, "speech that its mind does not know of: a defect"),
    Metric("signals_total", Form.COUNTER, "what the fast lane found", ("detector", "hint")),
    Metric("fast_lane_failures_total", Form.COUNTER, "messages that the fast lane could not read: a defect"),
    Metric("moderation_acts_total", Form.COUNTER, "acts of moderation by what became of them", ("state",)),
    Metric("ratelimit_total", Form.COUNTER, "times a platform asked us to pause", ("platform",)),
    Metric("model_seconds", Form.TIMES, "time of a model call", ("model",)),
    Metric("send_seconds", Form.TIMES, "time of sending one part", ("platform",)),
    Metric("queue_wait_seconds", Form.TIMES, "time a job waited for a worker", ("pool", "kind")),
    Metric("job_seconds", Form.TIMES, "time a job ran", ("kind", "outcome")),
    Metric("queue_depth", Form.GAUGE, "jobs", ("pool", "state")),
    Metric("queue_oldest_seconds", Form.GAUGE, "age of the oldest ready job", ("pool",)),
    Metric("job_late_total", Form.COUNTER, "jobs that ended after their claim was lost", ("kind",)),
    Metric("pass_runs_total", Form.COUNTER, "runs of passes by how they ended", ("pass", "state", "reason")),
    Metric("lease_lost_total", Form.COUNTER, "times a worker lost all its claims"),
    Metric("reconcile_found_total", Form.COUNTER, "jobs that had lost their lane: a bug"),
    Metric("cycle_seconds", Form.TIMES, "time of one claim and settlement"),
    Metric("dead_total", Form.COUNTER, "jobs given up", ("kind",)),
    Metric("done_rest_rows", Form.GAUGE, "finished jobs outside the daily partitions"),
    Metric("lane_dead_tuples", Form.GAUGE, "dead rows of the queue's hot table"),
    Metric("oldest_snapshot_seconds", Form.GAUGE, "age of the oldest open transaction"),
    Metric("event_loop_lag_seconds", Form.GAUGE, "how late the event loop runs"),
)
_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180)
_RATIOS = (0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 3)


class Metrics:
    """The figures of this process, on a registry of their own. Core code is given `observe`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._log = structlog.get_logger("metrics")
        self._known: Mapping[str, tuple[Metric, Counter | Gauge | Histogram]] = {
            metric.name: (metric, self._family(metric)) for metric in METRICS
        }
        memory = Gauge("voidbot_memory_bytes", "memory this process holds", registry=self.registry)
        memory.set_function(memory_bytes)

    def observe(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Count, keep or time `value` under a name of `METRICS`.

        A name or a label that is not declared is logged and dropped: figures never stop the work.
        """
        metric, family = self._known.get(name, (None, None))
        if metric is None or family is None or sorted(labels) != sorted(metric.labels):
            self._log.error("metric.undeclared", metric=name, labels=sorted(labels))
            return
        series = family.labels(**labels) if labels else family
        match series:
            case Counter():
                series.inc(value)
            case Gauge():
                series.set(value)
            case Histogram():
                series.observe(value)

    def text(self) -> bytes:
        """Return all figures in Prometheus' text format."""
        return generate_latest(self.registry)

    def _family(self, metric: Metric) -> Counter | Gauge | Histogram:
        name = f"voidbot_{metric.name}"
        match metric.form:
            case Form.COUNTER:
                return Counter(name, metric.what, metric.labels, registry=self.registry)
            case Form.GAUGE:
                return Gauge(name, metric.what, metric.labels, registry=self.registry)
            case Form.TIMES | Form.RATIO:
                steps = _SECONDS if metric.form is Form.TIMES else _RATIOS
                return Histogram(name, metric.what, metric.labels, registry=self.registry, buckets=steps)


def memory_bytes() -> float:
    """Return the resident memory of this process; its peak where the system tells no more, 0 on Windows."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return float(statm.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    if sys.platform == "win32":
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else peak * 1024)
