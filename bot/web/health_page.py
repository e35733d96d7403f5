"""The health page as HTML: plain, without script, every text escaped."""

import base64
import hashlib
from html import escape

from bot.web.checks import Report

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}th,td{text-align:left;padding:.25rem 1rem .25rem 0;"
    "border-bottom:1px solid #8884}.no{font-weight:bold;color:#b00020}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}.no{color:#ff8a80}}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The content security policy: nothing runs and nothing loads; the one style is named by its hash."""


def render(report: Report, version: str) -> str:
    """Return the page for a report."""
    state = "ready" if report.ready else "not ready"
    rows = "".join(
        f"<tr><td>{escape(verdict.name)}</td><td>{'fine' if verdict.ok else '<span class=no>not fine</span>'}</td>"
        f"<td>{escape(verdict.reason)}</td></tr>"
        for verdict in report.verdicts
    )
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>VoidBot: {state}</title><style>{_STYLE}</style>"
        f"<h1>VoidBot is {state}</h1>"
        f"<table><tr><th>check</th><th>state</th><th>reason</th></tr>{rows}</table>"
        f"{_figures(report)}<p>Version {escape(version)}. For machines: <a href=/healthz>healthz</a>, "
        "<a href=/readyz>readyz</a>, <a href=/metrics>metrics</a>.</p></html>"
    )


def _figures(report: Report) -> str:
    if report.figures is None:
        return "<p>Queue and rooms: unknown while Postgres does not answer.</p>"
    rows = "".join(
        f"<tr><td>{escape(pool)}</td><td>{escape(state)}</td><td>{depth}</td></tr>"
        for (pool, state), depth in sorted(report.figures.queue.items())
    )
    queue = f"<table><tr><th>pool</th><th>jobs</th><th>number</th></tr>{rows}</table>" if rows else ""
    return f"<p>Rooms: {report.figures.rooms}.{'' if rows else ' The queue is empty.'}</p>{queue}"
