"""Logs are events without secrets or words; figures are declared and belong to one registry."""

import asyncio
import io
import json
import logging
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from bot.observability import METRICS, Form, Metric, Metrics, configure_logs, correlated
from bot.redaction import HIDDEN, Redactor

Lines = Callable[[], list[dict[str, Any]]]
DISCORD = "MTE4NzQ2MTIzNDU2Nzg5MDEyMw.GaBcDe.abcdefghijklmnopqrstuvwxyz0123456789AB"
INTERACTION = "aW50ZXJhY3Rpb246MTE4NzQ2MTIzNDU2Nzg5MDEyOnNlY3JldC1vZi1pdA"
TELEGRAM = "1234567890:AAEhBP0av28UaEzX1qTu4TzYpWkLmNoPqRs"


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Log as JSON into memory; gives what was logged. The root logger is put back."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logs(stream=stream, secrets=["swordfish", "abc"])
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


def test_an_event_is_one_line_with_its_fields(lines: Lines) -> None:
    structlog.get_logger("jobs").info("job.done", job=7, kind="reply")
    (line,) = lines()
    assert line.pop("at").endswith("Z")
    assert line == {"event": "job.done", "job": 7, "kind": "reply", "level": "info", "logger": "jobs"}


def test_lines_of_libraries_look_the_same(lines: Lines) -> None:
    logging.getLogger("some.library").warning("slow by %d s", 3)
    assert [(line["event"], line["logger"]) for line in lines()] == [("slow by 3 s", "some.library")]


def test_the_level_is_kept(lines: Lines) -> None:
    structlog.get_logger("jobs").debug("job.looked_at")
    assert lines() == []


@pytest.mark.parametrize("name", ["aiohttp.access", "httpx2", "httpcore2.connection"])
def test_requests_are_not_logged_one_by_one(lines: Lines, name: str) -> None:
    logging.getLogger(name).info("GET /")
    assert lines() == []


async def test_the_correlation_id_follows_into_tasks_and_ends_with_the_block(lines: Lines) -> None:
    log = structlog.get_logger("chat")

    async def work() -> None:
        log.info("inside")
        logging.getLogger("library").warning("inside too")

    with correlated("t-1", room=4):
        async with asyncio.TaskGroup() as group:
            group.create_task(work())
    log.info("outside")
    inside, library, outside = lines()
    assert (inside["correlation_id"], inside["room"], library["correlation_id"]) == ("t-1", 4, "t-1")
    assert "correlation_id" not in outside


def test_a_traceback_has_no_local_variables_and_no_known_secret(lines: Lines) -> None:
    def fail(local_key: str) -> None:
        raise RuntimeError(f"cannot use {local_key}")

    try:
        fail("swordfish")
    except RuntimeError:
        structlog.get_logger("jobs").exception("job.failed")
    (line,) = lines()
    assert "RuntimeError: cannot use [hidden]" in line["exception"]
    assert "swordfish" not in json.dumps(line) and "local_key =" not in json.dumps(line)


def test_a_short_known_secret_does_not_hide_words(lines: Lines) -> None:
    structlog.get_logger("jobs").info("the abc of it")
    assert lines()[0]["event"] == "the abc of it"


@pytest.mark.parametrize(
    "key",
    ["token", "bot_token", "API_KEY", "apikey", "password", "authorization", "database_url", "text", "prompt"],
)
def test_a_secret_key_hides_its_value(key: str) -> None:
    assert Redactor().fields({key: "value", "inner": [{key: 5}]}) == {key: HIDDEN, "inner": [{key: HIDDEN}]}


@pytest.mark.parametrize("key", ["input_tokens", "max_output_tokens", "dedupe_key", "trace", "room"])
def test_other_keys_stay_readable(key: str) -> None:
    assert Redactor().fields({key: 4096}) == {key: 4096}


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("connect to postgresql://void:hunter2@host/db failed", "hunter2"),
        ("Authorization: Bearer abcdefgh12345678", "abcdefgh12345678"),
        ("key sk-ant-REDACTED is wrong", "sk-ant-REDACTED"),
        (f"POST /bot{TELEGRAM}/sendMessage", TELEGRAM),
        (f"telegram {TELEGRAM} refused", TELEGRAM),
        (f"discord refused {DISCORD}", DISCORD),
        (f"POST https://discord.example/api/v10/webhooks/118746123456789012/{INTERACTION} responded", INTERACTION),
        (f"PATCH /webhooks/118746123456789012/{INTERACTION}/messages/@original failed", INTERACTION),
        (f"POST /interactions/118746123456789013/{INTERACTION}/callback?with_response=1", INTERACTION),
        ("got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "eyJhbGciOiJIUzI1NiJ9"),
        ("https://host/path?room=3&token=deadbeefdeadbeef&x=1", "deadbeefdeadbeef"),
        ('{"api_key": "s3cr3tvalue", "n": 1}', "s3cr3tvalue"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "MIIE"),
        ("ghp_abcdefghijklmnopqrst", "ghp_abcdefghijklmnopqrst"),
    ],
)
def test_the_shape_of_a_secret_hides_it(text: str, secret: str) -> None:
    shown = Redactor().line(text)
    assert secret not in shown and HIDDEN in shown


@pytest.mark.parametrize(
    "text",
    [
        "job 12:30 done in room 4",
        "reply:turn-7",
        "2026-01-02T03:04:05Z",
        "http://127.0.0.1:8642/",
        "a.b.c",
        "/webhooks/7",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert Redactor(["swordfish"]).line(text) == text


@given(st.text(), st.text(alphabet="abcXYZ019-_!$", min_size=6))
def test_a_known_secret_never_passes(around: str, secret: str) -> None:
    assert secret not in Redactor([secret]).line(f"{around}{secret}{around}").replace(HIDDEN, "")


def test_people_s_words_in_the_driver_s_and_the_validator_s_errors_are_hidden() -> None:
    class Row(BaseModel):
        n: int

    with pytest.raises(ValidationError) as caught:
        Row.model_validate({"n": "dear diary"})
    driver = asyncpg.UniqueViolationError("twice\nDETAIL:  Key (text)=(dear diary) exists.")
    assert "dear diary" not in Redactor().line(f"{caught.value}\n{driver}")


def test_the_log_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    handler = configure_logs(file=tmp_path / "home" / "voidbot.log", form="console")
    structlog.get_logger("app").warning("app.started", port=8642)
    handler.close()
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()
    file = tmp_path / "home" / "voidbot.log"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "app.started" in file.read_text() and "\x1b" not in file.read_text()


# Figures


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_counters_add_gauges_keep_and_times_are_counted() -> None:
    metrics = Metrics()
    for value in (1, 2):
        metrics.observe("dead_total", value, {"kind": "reply"})
        metrics.observe("done_rest_rows", value, {})
        metrics.observe("model_seconds", value, {"model": "m"})
    assert sample(metrics, "voidbot_dead_total", kind="reply") == 3
    assert sample(metrics, "voidbot_done_rest_rows") == 2
    assert sample(metrics, "voidbot_model_seconds_count", model="m") == 2


def test_processes_in_one_program_share_no_figures() -> None:
    first, second = Metrics(), Metrics()
    first.observe("duplicates_total", 1, {})
    assert sample(second, "voidbot_duplicates_total") == 0


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_declared_metric_can_be_observed_and_shown(metric: Metric) -> None:
    metrics = Metrics()
    labels = dict.fromkeys(metric.labels, "x")
    metrics.observe(metric.name, 1, labels)
    ending = {Form.COUNTER: "", Form.GAUGE: "", Form.TIMES: "_count", Form.RATIO: "_count"}[metric.form]
    assert sample(metrics, f"voidbot_{metric.name}{ending}", **labels) == 1
    assert f"voidbot_{metric.name}".encode() in metrics.text()


def test_an_undeclared_metric_or_label_is_logged_and_stops_nothing(lines: Lines) -> None:
    metrics = Metrics()
    metrics.observe("invented", 1, {})
    metrics.observe("dead_total", 1, {"flavour": "sweet"})
    assert [line["event"] for line in lines()] == ["metric.undeclared"] * 2
    assert sample(metrics, "voidbot_dead_total", flavour="sweet") is None


def test_memory_is_a_plausible_number_of_bytes() -> None:
    value = sample(Metrics(), "voidbot_memory_bytes")
    assert value is not None and 10_000_000 < value < 10_000_000_000
