"""The `export` job: everything that is kept of a person in one file, for that person alone, for a day.

Other people's words stand in it only as the one line that the person answered, if the person may still read it.
"""

import asyncio
import html
import json
import secrets
import zipfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from core.domain.audience import Private
from core.domain.ids import CommunityId, PersonId, RoomId
from core.domain.jobs import NewJob, Ok, Outcome
from core.jobs.executor import JobContext
from core.ports import Clock
from core.privacy.desk import Desk
from core.privacy.hand import Hand, Telling
from core.privacy.profile import may_be_told
from core.store import exports, facts, links, owned, people
from core.store.access import ReadableRooms
from core.store.engine import Database, Tx
from core.store.exports import Export

SCHEMA = 1
BATCH = 500
LINE_CHARS = 200
NOT_READ_NOW = "a room that you cannot read now"
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>What VoidBot keeps of you</title>
<style>body{font:16px/1.5 sans-serif;max-width:50em;margin:2em auto;padding:0 1em}q{color:#555}
p{white-space:pre-wrap}small{color:#777}</style></head><body>
<h1>What VoidBot keeps of you</h1>
"""


class ExportWork(BaseModel):
    """Payload of `export`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    export_id: int


def export_job(export_id: int, *, person_id: PersonId, community_id: CommunityId, trace: str) -> NewJob:
    """Return the job that makes a file."""
    return NewJob(
        kind="export",
        pool="upkeep",
        lane=f"export:{person_id}",
        payload=ExportWork(export_id=export_id).model_dump(),
        community_id=community_id,
        person_id=person_id,
        trace=trace,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporting:
    """What making files needs."""

    database: Database
    clock: Clock
    readable: ReadableRooms
    desk: Desk

    async def run(self, ctx: JobContext, work: ExportWork) -> Outcome:
        """Make one file anew, whatever was begun before; tell the person where it is."""
        hand = Hand(self.database, ctx)
        wish = await hand.do(partial(exports.load, export_id=work.export_id))
        if wish is None or wish.state != "queued":
            return Ok()
        folder = self.desk.home / exports.FOLDER
        await asyncio.to_thread(folder.mkdir, 0o700, True, True)
        name = f"{secrets.token_hex(12)}.zip"
        half_made = folder / f".{name}.partial"
        await asyncio.to_thread(half_made.touch, 0o600)
        try:
            counts = await self._write(hand, wish, half_made)
            await ctx.advance(partial(exports.complete, export_id=wish.id, file_name=name, counts=counts))
            await asyncio.to_thread(half_made.rename, folder / name)
        finally:
            await asyncio.to_thread(half_made.unlink, True)
        await ctx.finish(partial(self._tell, wish=wish, file=folder / name, counts=counts, trace=ctx.job.trace))
        return Ok()

    async def _tell(self, tx: Tx, wish: Export, file: Path, counts: dict[str, int], trace: str) -> None:
        held = ", ".join(f"{n} {what}" for what, n in counts.items())
        text = f"Your file is ready ({held}). It is good for 24 hours, then it is deleted."
        if wish.front_end == "console":
            text += f"\n{file}"
        else:
            text += f"\nI cannot send files here: ask the operator for {file.name} in the folder `{exports.FOLDER}`."
        await self.desk.tell(
            tx,
            Telling(
                person_id=wish.person_id,
                room_id=wish.room_id,
                front_end=wish.front_end,
                text=text,
                dedupe=f"export:{wish.id}",
                rule="command:export-me",
                trace=trace,
            ),
        )

    async def _write(self, hand: Hand, wish: Export, path: Path) -> dict[str, int]:
        accounts = await hand.do(partial(facts.linked_accounts, person_id=wish.person_id))
        readable = await hand.do(partial(self._readable, accounts=accounts))
        about = await hand.do(partial(self._about, person_id=wish.person_id, accounts=accounts, readable=readable))
        counts = {"messages": 0, "answers": 0, "facts": len(about["facts"])}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            with file.open("data.json", "w") as data:
                data.write((json.dumps(about, ensure_ascii=False, indent=1)[:-2] + ',\n "messages": [').encode())
                async for message in self._messages(hand, accounts, readable):
                    data.write((("," if counts["messages"] else "") + "\n  " + _dumped(message)).encode())
                    counts["messages"] += 1
                data.write(b'\n ],\n "answers": [')
                async for answer in self._answers(hand, accounts):
                    data.write((("," if counts["answers"] else "") + "\n  " + _dumped(answer)).encode())
                    counts["answers"] += 1
                data.write(b"\n ]\n}\n")
            with file.open("index.html", "w") as page:
                page.write(_PAGE.encode() + _about_in_html(about).encode())
                heading = ""
                async for message in self._messages(hand, accounts, readable):
                    now = f"{message['community']} · #{message['room']} · {message['at'][:10]}"
                    page.write((f"<h3>{_safe(now)}</h3>\n" if now != heading else "").encode())
                    page.write(_message_in_html(message).encode())
                    heading = now
                page.write(b"</body></html>\n")
        return counts

    async def _readable(self, tx: Tx, accounts: Sequence[PersonId]) -> dict[PersonId, frozenset[RoomId]]:
        found: dict[PersonId, frozenset[RoomId]] = {}
        for account in accounts:
            rooms: frozenset[RoomId] = frozenset()
            for community in await owned.list_communities(tx, account):
                rooms |= await self.readable.load(tx, community, Private(account), account)
            found[account] = rooms
        return found

    async def _about(
        self,
        tx: Tx,
        person_id: PersonId,
        accounts: Sequence[PersonId],
        readable: dict[PersonId, frozenset[RoomId]],
    ) -> dict[str, Any]:
        rooms = frozenset().union(*readable.values())
        known = [fact for fact in await facts.list_facts(tx, accounts) if may_be_told(fact, rooms)]
        return {
            "schema": SCHEMA,
            "made_at": self.clock.now().isoformat(),
            "accounts": [":".join(await people.find_account(tx, account)) for account in accounts],
            "names": await owned.list_names(tx, accounts),
            "linked": [f"{each.platform}:{each.account_ref}" for each in await links.list_linked(tx, person_id)],
            "choices": await people.load_choices(tx, person_id),
            "facts": [
                {
                    "id": fact.id,
                    "what": fact.predicate.value,
                    "value": fact.value,
                    "said_by": fact.said_by.value,
                    "stated_at": fact.stated_at.isoformat(),
                    "quotes": [quote.words for quote in fact.quotes if quote.room_id in rooms],
                }
                for fact in known
            ],
        }

    async def _messages(
        self, hand: Hand, accounts: Sequence[PersonId], readable: dict[PersonId, frozenset[RoomId]]
    ) -> AsyncIterator[dict[str, Any]]:
        rooms = sorted(frozenset().union(*readable.values()))
        after = (0, 0)
        while batch := await hand.do(
            partial(owned.list_messages, people=accounts, readable=rooms, after=after, limit=BATCH)
        ):
            after = (batch[-1].room_id, batch[-1].id)
            for each in batch:
                line = (each.answered or "").strip().partition("\n")[0][:LINE_CHARS]
                yield {
                    "id": each.id,
                    "community": each.community,
                    "room": each.room_name or NOT_READ_NOW,
                    "at": each.sent_at.isoformat(),
                    "text": each.text,
                    **({"in_reply_to": line} if line else {}),
                    **({"files": list(each.files)} if each.files else {}),
                }

    async def _answers(self, hand: Hand, accounts: Sequence[PersonId]) -> AsyncIterator[dict[str, Any]]:
        after = 0
        while batch := await hand.do(partial(owned.list_answers, people=accounts, after=after, limit=BATCH)):
            after = batch[-1]["receipt"]
            for each in batch:
                yield each


def _dumped(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _safe(text: str) -> str:
    return html.escape(text, quote=True)


def _about_in_html(about: dict[str, Any]) -> str:
    lines = [
        f"<p><small>{_safe(about['made_at'])} · {_safe(', '.join(about['accounts']))}</small></p>",
        "<h2>Facts</h2>",
    ]
    for fact in about["facts"]:
        quotes = "".join(f"<br><q>{_safe(quote)}</q>" for quote in fact["quotes"])
        lines.append(
            f"<p>{_safe(fact['what'])}: {_safe(fact['value'])} <small>{_safe(fact['said_by'])}</small>{quotes}</p>"
        )
    choices = ", ".join(f"{name} {'on' if on else 'off'}" for name, on in about["choices"].items())
    lines += ["<h2>Choices</h2>", f"<p>{_safe(choices)}</p>", "<h2>Messages</h2>"]
    return "\n".join(lines) + "\n"


def _message_in_html(message: dict[str, Any]) -> str:
    answered = f"<q>{_safe(message['in_reply_to'])}</q>\n" if "in_reply_to" in message else ""
    files = "".join(f"\n[{_safe(name)}]" for name in message.get("files", ()))
    return f"<p><small>{_safe(message['at'][11:19])}</small>\n{answered}{_safe(message['text'])}{files}</p>\n"
