"""One server, and a database per repetition: a clone of a filled template, so that all start from the same rows."""

import asyncio
import json
import os
import secrets
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from benchmarks.rig import say
from core.store.embedded import EmbeddedPostgres, EmbeddedSettings
from core.store.engine import Connection, migrate, normalise

ROOT = Path(__file__).parents[1]


class System(StrEnum):
    """A queue under test."""

    OURS = "ours"
    PROCRASTINATE = "procrastinate"
    PGQUEUER = "pgqueuer"


class Commit(StrEnum):
    """What a commit waits for. `shipped`: the disk, but for those of our transactions that say otherwise."""

    ON = "on"
    OFF = "off"
    SHIPPED = "shipped"


# Every cycle of a worker begins with this check; its connection has asked not to wait for the disk.
_ALWAYS_WAIT = """
alter function queue.check_worker(uuid) rename to check_worker_as_shipped;
create function queue.check_worker(id_given uuid) returns void language plpgsql as $$
begin
  perform set_config('synchronous_commit', 'on', true);
  perform queue.check_worker_as_shipped(id_given);
end $$;
"""
_FINISHED = {
    System.OURS: "select finished_at as at from queue.done where outcome = 'done'",
    System.PROCRASTINATE: "select at from procrastinate_events where type = 'succeeded'",
    System.PGQUEUER: "select created as at from pgqueuer_log where status = 'successful'",
}
_PENDING = {
    System.OURS: "select count(*) from queue.job",
    System.PROCRASTINATE: "select count(*) from procrastinate_jobs where status in ('todo', 'doing')",
    System.PGQUEUER: "select count(*) from pgqueuer",
}
# What each keeps of a job that has ended; triggers are off only while this history is written.
_HISTORY: Mapping[System, Sequence[str]] = {
    System.OURS: (
        """
        insert into queue.done (id, lane, pool, community_id, kind, outcome, attempt, trace, created_at, due_at,
            granted_at, finished_at)
          select nextval('queue.job_id'), 'job:old:' || n, 'bench', n % 20, 'bench', 'done', 1, '', t, t, t, t
            from generate_series(1, $1::integer) n, lateral (select now() - interval '1 hour' as t) x
        """,
    ),
    System.PROCRASTINATE: (
        "alter table procrastinate_jobs disable trigger user",
        """
        with old as (
          insert into procrastinate_jobs (queue_name, task_name, status, attempts)
            select 'default', 'bench', 'succeeded', 1 from generate_series(1, $1::integer) returning id
        )
        insert into procrastinate_events (job_id, type, at)
          select id, unnest(array['deferred', 'started', 'succeeded']::procrastinate_job_event_type[]),
            now() - interval '1 hour' from old
        """,
        "alter table procrastinate_jobs enable trigger user",
    ),
    System.PGQUEUER: (
        """
        insert into pgqueuer_log (created, job_id, status, priority, entrypoint, aggregated)
          select now() - interval '1 hour', -n, unnest(array['queued', 'picked', 'successful']::pgqueuer_status[]), 0,
            'bench', true from generate_series(1, $1::integer) n
        """,
    ),
}


_UNSEEN = "select exists (select from queue.signal)"


class Broken(Exception):
    """A repetition that measured nothing: a child failed, or the backlog ran dry."""


@dataclass(slots=True)
class Child:
    """A process with one queue in it."""

    process: asyncio.subprocess.Process

    async def ask(self, act: str, **given: object) -> Any:
        """Have it do something and return its answer.

        Raises:
            Broken: It could not.
        """
        assert self.process.stdin is not None and self.process.stdout is not None  # both are pipes
        self.process.stdin.write(json.dumps({"act": act, **given}).encode() + b"\n")
        line = await self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": "the process ended"}
        if isinstance(answer, dict) and "error" in answer:
            raise Broken(f"{act}: {answer['error']}")
        return answer


@dataclass(slots=True)
class Trial:
    """One repetition of one system: its database and its processes."""

    system: System
    dsn: str
    connection: Connection
    peers: Path
    children: list[Child] = field(default_factory=list)

    async def start(self, *, connections: int = 12, lanes: int = 0) -> Child:
        """Start a process with this queue in it."""
        name, python = "benchmarks.queue_ours", sys.executable
        if self.system is not System.OURS:
            name, python = "benchmarks.queue_peers", str(self.peers / "bin" / "python")
        process = await asyncio.create_subprocess_exec(
            python,
            "-m",
            name,
            self.system,
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**24,
        )
        child = Child(process)
        self.children.append(child)
        await child.ask("open", dsn=self.dsn, connections=connections, lanes=lanes)
        return child

    async def stop(self) -> None:
        """End the processes; what they still hold is of no interest."""
        for child in self.children:
            if child.process.returncode is None:
                child.process.kill()
            await child.process.wait()

    async def settle_down(self) -> None:
        """Vacuum and analyse, so that no repetition pays for another."""
        await self.connection.execute("vacuum analyze")

    async def now(self) -> Any:
        """Return the database's clock."""
        return await self.connection.fetchval("select clock_timestamp()")

    async def finished(self, since: object, until: object) -> int:
        """Return how many jobs ended in [since, until), as the queue itself recorded it."""
        count: int = await self.connection.fetchval(
            f"select count(*) from ({_FINISHED[self.system]}) ended where at >= $1 and at < $2", since, until
        )
        return count

    async def pending(self) -> int:
        """Return how many jobs have not ended."""
        count: int = await self.connection.fetchval(_PENDING[self.system])
        return count

    async def write_history(self, jobs: int) -> None:
        """Add jobs that have ended, as this queue keeps them."""
        for statement in _HISTORY[self.system]:
            arguments = (jobs,) if "$1" in statement else ()
            await self.connection.execute(statement, *arguments, timeout=600)


class Server:
    """The server all systems share."""

    def __init__(self, dsn: str, peers: Path, commit: Commit) -> None:
        self._dsn = dsn
        self._peers = peers
        self._commit = commit

    @classmethod
    @asynccontextmanager
    async def running(cls, home: Path, peers: Path, commit: Commit) -> AsyncIterator["Server"]:
        """Yield the server of DATABASE_URL, else an embedded one with the settings that the product gives it."""
        given = os.environ.get("DATABASE_URL")  # noqa: TID251  # the benchmarks' own switch
        if given:
            yield cls(normalise(given), peers, commit)
            return
        embedded = EmbeddedPostgres(home, EmbeddedSettings(), say)
        try:
            yield cls(await embedded.ensure(), peers, commit)
        finally:
            await embedded.stop()

    async def facts(self) -> dict[str, object]:
        """Return the server's version and what its commits wait for."""
        connection = await asyncpg.connect(self._dsn)
        try:
            shown = {name: await connection.fetchval(f"show {name}") for name in ("server_version", "fsync")}
        finally:
            await connection.close()
        return {"postgres": shown["server_version"], "fsync": shown["fsync"]}

    @asynccontextmanager
    async def trial(self, system: System, template: str | None = None) -> AsyncIterator[Trial]:
        """Yield a database of its own: a clone of the template, or a new one with this system's schema."""
        name = f"bench_{secrets.token_hex(5)}"
        source = "" if template is None else f" template {template} strategy file_copy"
        await self._run(f"create database {name}{source}")
        level = "off" if self._commit is Commit.OFF else "on"
        await self._run(f"alter database {name} set synchronous_commit = {level}")
        dsn = urlunsplit(urlsplit(self._dsn)._replace(path=f"/{name}"))
        trial = Trial(system, dsn, await asyncpg.connect(dsn), self._peers)
        try:
            if template is None:
                await self._install(trial)
            else:
                await trial.settle_down()
            yield trial
        finally:
            await trial.stop()
            await trial.connection.close()
            await self._drop(name)

    @asynccontextmanager
    async def template(
        self,
        system: System,
        *,
        pending: int = 0,
        lanes: int = 0,
        communities: int = 20,
        history: int = 0,
        seen: int = 1,
    ) -> AsyncIterator[str]:
        """Yield the name of a filled database, to be cloned.

        `seen`: the backlog is as it stands under workers that are busy, not as it was written while none was there.
        That is a difference for ours alone: the first look at a job makes its lane.
        """
        async with self.trial(system) as trial:
            if history:
                await trial.write_history(history)
            if pending:
                child = await trial.start(lanes=lanes)
                await child.ask("fill", count=pending, lanes=lanes, communities=communities)
            while seen and system is System.OURS and await trial.connection.fetchval(_UNSEEN):
                await trial.connection.execute("select queue.promote()")
            await trial.stop()
            await trial.settle_down()
            await trial.connection.close()
            yield urlsplit(trial.dsn).path.lstrip("/")

    async def _install(self, trial: Trial) -> None:
        if trial.system is not System.OURS:
            await trial.start()  # opening makes the schema
            await trial.stop()
            return
        await migrate(trial.dsn)
        if self._commit is Commit.ON:
            await trial.connection.execute(_ALWAYS_WAIT)

    async def _drop(self, name: str) -> None:
        """Drop a database, also while the server vacuums it: a plain role can only wait until that is over."""
        for _ in range(120):
            try:
                await self._run(f"drop database if exists {name} with (force)")
            except (asyncpg.InsufficientPrivilegeError, asyncpg.ObjectInUseError):
                await asyncio.sleep(0.5)
            else:
                return
        say(f"database {name} stays: it is still in use")

    async def _run(self, statement: str) -> None:
        connection = await asyncpg.connect(self._dsn)
        try:
            await connection.execute(statement, timeout=600)
        finally:
            await connection.close()
