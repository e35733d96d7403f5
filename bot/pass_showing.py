"""What `voidbot pass` prints: how passes stand, runs, one run whole; in short lines, and for programs."""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from bot.pass_settings import PassSettings
from core.domain.passes import Run
from core.domain.relative import relative
from core.passes import telling
from core.passes.steering import GROUPED, Groups, Standing, pause_words
from core.passes.telling import ANSWER, DECISION, PACKET, VERDICTS
from core.store.passes import PhaseRow

SHOWN_ARTIFACTS = (PACKET, VERDICTS, DECISION)
"""What a run kept that holds ids, codes and numbers; its answer may hold people's words and is asked for by itself."""


def show(line: str) -> None:
    """Print a line of a command's answer."""
    sys.stdout.write(f"{line}\n")


def show_status(
    standings: Mapping[str, Sequence[Standing]],
    groups: Mapping[str, Groups],
    settings: PassSettings,
    now: datetime,
    *,
    as_json: bool,
) -> None:
    """Print how each pass of each mind stands, and the settings that this command was started with."""
    origins = settings.origins()
    if as_json:
        minds = [
            {
                "mind": mind_id,
                "groups": {key: [room.name for room in rooms] for key, rooms in groups[mind_id].items()},
                "passes": [_standing_image(each) for each in standing],
            }
            for mind_id, standing in standings.items()
        ]
        told = {name: {"value": _plain(value), "set": by is not None} for name, (value, by) in origins.items()}
        show(json.dumps({"minds": minds, "settings": told}, ensure_ascii=False))
        return
    for mind_id, standing in standings.items():
        show(f"mind {mind_id}")
        for each in standing:
            for line in standing_lines(each, now):
                show(f"  {line}")
        for key, rooms in groups[mind_id].items():
            show(f"  group {key}: {', '.join(f'#{room.name}' for room in rooms)}")
    if not standings:
        show("there is no mind yet; a community brings its own")
    show("settings, as this command reads them:")
    for name, (value, by) in origins.items():
        show(f"  {name}={_plain(value)}{'' if by is None else '  (set)'}")


def standing_lines(each: Standing, now: datetime) -> list[str]:
    """Return how a pass stands in one line, with one more for each pause and for the newest run that was skipped."""
    last = "never ran" if each.last is None else f"run {each.last.id} {_when(each.last, now)}, {_words(each.last)}"
    parts = [f"{each.name:10}", "on" if each.on else "off", last]
    if each.on and each.next_at is not None and not each.pauses:
        parts.append(f"next {relative(each.next_at, now)}" if each.next_at > now else "next now")
    lines = ["  ".join(parts)]
    lines += [f"  {pause_words(pause, now)}" for pause in each.pauses]
    if each.skipped is not None and (each.last is None or each.skipped.id > each.last.id):
        lines.append(f"  skipped {_when(each.skipped, now)}: {telling.skip_words(each.skipped.reason)}")
    return lines


def show_runs(runs: Sequence[Run], groups: Mapping[str, Groups], now: datetime, *, as_json: bool) -> None:
    """Print runs, newest first."""
    if as_json:
        show(json.dumps([run_image(run) for run in runs], ensure_ascii=False))
        return
    for run in runs:
        where = telling.group_words(run.group, _names(groups.get(run.mind_id, {})))
        show(f"run {run.id:<6} {_when(run, now):16}  {run.name:10}  {run.origin:9}  {_words(run)}  {where}")
    if not runs:
        show("there is nothing")


def show_run(
    run: Run,
    phases: Sequence[PhaseRow],
    kept: Mapping[str, Mapping[str, Any]],
    groups: Mapping[str, Groups],
    now: datetime,
    *,
    as_json: bool,
) -> None:
    """Print one run: its phases, its verdicts by code, what was decided of each candidate."""
    if as_json:
        image = run_image(run) | {"phases": [_phase_image(row) for row in phases], "artifacts": dict(kept)}
        show(json.dumps(image, ensure_ascii=False))
        return
    where = telling.group_words(run.group, _names(groups.get(run.mind_id, {})))
    show(f"run {run.id}  {run.name}  {run.origin}  {_when(run, now)}  {_words(run)}")
    show(f"of mind {run.mind_id}, for {where}")
    for row in phases:
        show(f"  {telling.phase_words(row)}")
    if phases:
        cost = sum(row.use.usd_micro for row in phases) / 1_000_000
        tokens = sum(row.use.tokens_in for row in phases), sum(row.use.tokens_out for row in phases)
        show(f"  in all {tokens[0]} tokens read, {tokens[1]} written, ${cost:.6f}")
    for words, count in sorted(telling.verdict_counts(kept.get(VERDICTS, {})).items()):
        show(f"  {count} × {words}")
    for each in telling.judged(kept.get(DECISION, {})):
        held = "; ".join(f"{by.rule}: {by.words}{f' ({by.detail})' if by.detail else ''}" for by in each.held_by)
        show(f"  candidate {each.id}: {each.end}{f', {held}' if held else ''}")
    if ANSWER in kept:
        show(json.dumps(kept[ANSWER], ensure_ascii=False, indent=2))


def run_image(run: Run) -> dict[str, Any]:
    """Return a run for programs."""
    return {
        "id": run.id, "mind": run.mind_id, "pass": run.name.value, "group": run.group, "slot": run.slot.isoformat(),
        "slotKey": run.slot_key, "origin": run.origin.value, "mode": run.mode.value, "state": run.state.value,
        "phase": run.phase.value, "asks": run.asks, "reason": run.reason or None, "at": run.created_at.isoformat(),
        "finishedAt": None if run.finished_at is None else run.finished_at.isoformat(),
    }  # fmt: skip


def _standing_image(each: Standing) -> dict[str, Any]:
    return {
        "pass": each.name.value,
        "grouped": each.name in GROUPED,
        "on": each.on,
        "next": None if each.next_at is None or not each.on else each.next_at.isoformat(),
        "last": None if each.last is None else run_image(each.last),
        "skipped": None if each.skipped is None else run_image(each.skipped),
        "pauses": [
            {
                "pass": pause.name or None, "until": None if pause.until is None else pause.until.isoformat(),
                "reason": pause.reason, "since": pause.set_at.isoformat(),
            }
            for pause in each.pauses
        ],
    }  # fmt: skip


def _phase_image(row: PhaseRow) -> dict[str, Any]:
    return {
        "n": row.n, "phase": row.phase, "attempt": row.attempt, "outcome": row.outcome, "code": row.code or None,
        "counts": dict(row.counts), "model": row.use.model or None, "tokensIn": row.use.tokens_in,
        "tokensOut": row.use.tokens_out, "usdMicro": row.use.usd_micro,
        "startedAt": None if row.started_at is None else row.started_at.isoformat(),
        "finishedAt": row.finished_at.isoformat(),
    }  # fmt: skip


def _names(groups: Groups) -> dict[str, str]:
    return {key: ", ".join(f"#{room.name}" for room in rooms) for key, rooms in groups.items()}


def _words(run: Run) -> str:
    return telling.run_words(run)


def _when(run: Run, now: datetime) -> str:
    return relative(run.finished_at or run.created_at, now)


def _plain(value: object) -> Any:
    return ",".join(value) if isinstance(value, tuple) else value
