"""Sources from end to end: real repositories and folders are synced, searched, and never run."""

import functools
import os
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from core.domain.errors import InputRejected, Misconfigured, StaleState, TimedOut, Unavailable
from core.domain.sources import LeftOut, SourceKind, SourceState
from core.passes.sources import queue_hourly, sync_job
from core.retrieval.git import Git
from core.retrieval.sources import Sources
from core.store import jobs, sources
from core.store.engine import Database
from tests.fakes import ManualClock
from tests.flows.line import running_line
from tests.flows.repositories import Checkout, Library, fresh_database

GUIDE = "# Guide\n\nThe kiln is fired on Thursday.\n\n## Glaze\n\nCobalt glaze dries for a day.\n"
CODE = "def fireKiln(heat):\n    return heat * 2\n"


@pytest.fixture(scope="module")
async def shelf(server: str, template: str) -> AsyncIterator[Database]:
    """One database for the file: a sync needs a store, not a fresh one."""
    async with fresh_database(server, template) as database:
        yield database


@pytest.fixture
async def library(shelf: Database, tmp_path: Path) -> Library:
    return await Library.open(shelf, tmp_path / "home")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout.new(tmp_path / "repo")


async def test_a_repository_is_synced_and_found_with_its_lines(library: Library, checkout: Checkout) -> None:
    head = checkout.commit("first", docs__guide_md=GUIDE, src__kiln_py=CODE)
    source_id = await library.add(SourceKind.GIT, checkout.folder)
    report = await library.sync(source_id)
    assert (report.head, report.added, report.chunks) == (head, 2, 3)
    (hit, *_) = await library.find("how long does cobalt glaze dry?")
    assert hit.symbol == "Guide > Glaze" and "dries for a day" in hit.text
    assert hit.locator == f"lore:docs/guide.md@{hit.blob_hash[:7]}#L5-L7"
    assert "\n".join(GUIDE.split("\n")[hit.line_start - 1 : hit.line_end]) == hit.text
    assert (await library.find("where is fireKiln?"))[0].path == "src/kiln.py"


async def test_a_sync_of_an_unchanged_source_writes_nothing(
    library: Library, checkout: Checkout, tmp_path: Path
) -> None:
    checkout.commit("first", a_md=GUIDE, b_md="caf\u00e9", odd_md="x")
    checkout.write("odd.md", b"caf\xe9")
    checkout.commit("odd bytes")
    folder, graph = tmp_path / "texts", tmp_path / "graph.json"
    folder.mkdir()
    (folder / "note.txt").write_text("a note")
    graph.write_text('{"nodes": [{"id": "a"}], "links": []}')
    ids = [
        await library.add(SourceKind.GIT, checkout.folder, "repo"),
        await library.add(SourceKind.FOLDER, folder, "folder"),
        await library.add(SourceKind.GRAPH, graph, "graph"),
    ]
    for source_id in ids:
        await library.sync(source_id)
    before = await library.rows()
    reports = [await library.sync(source_id) for source_id in ids]
    assert await library.rows() == before and len(before) > 8
    assert [report.unchanged for report in reports] == [3, 1, 1]
    assert [named.path for named in reports[0].left_out if named.reason is LeftOut.NOT_UTF8] == ["odd.md"]


async def test_only_what_changed_is_written_and_what_is_gone_goes(library: Library, checkout: Checkout) -> None:
    checkout.commit("first", keep_md="# Keep\n\nkettle\n", change_md="# Old\n\nanvil\n", gone_md="# Gone\n\nbellows\n")
    source_id = await library.add(SourceKind.GIT, checkout.folder)
    await library.sync(source_id)
    kept = "select id from voidbot.source_chunks where text like '%kettle%'"
    before = await library.values(kept)
    (checkout.folder / "gone.md").unlink()
    checkout.commit("second", change_md="# New\n\nhammer\n")
    report = await library.sync(source_id)
    assert (report.unchanged, report.changed, report.removed, report.added) == (1, 1, 1, 0)
    assert await library.values(kept) == before
    assert [len(await library.find(word)) for word in ("kettle", "hammer", "anvil", "bellows")] == [1, 1, 0, 0]


async def test_a_rename_keeps_the_chunks_and_is_found_by_its_new_path(library: Library, checkout: Checkout) -> None:
    checkout.commit("first", old__pottery_md=GUIDE)
    source_id = await library.add(SourceKind.GIT, checkout.folder)
    await library.sync(source_id)
    ids = "select id from voidbot.source_chunks order by id"
    before = await library.values(ids)
    (checkout.folder / "new").mkdir()
    checkout.git("mv", "old/pottery.md", "new/ceramics.md")
    checkout.commit("moved")
    report = await library.sync(source_id)
    assert (report.renamed, report.added, report.removed) == (1, 0, 0)
    assert await library.values(ids) == before
    assert (await library.find("ceramics"))[0].path == "new/ceramics.md"
    assert await library.find("pottery") == []


async def test_an_older_sync_cannot_write_behind_a_newer_one(library: Library, checkout: Checkout) -> None:
    checkout.commit("first", a_md="anvil")
    source_id = await library.add(SourceKind.GIT, checkout.folder)
    source = await library.source(source_id)
    turns = 0

    async def overtaken(work):  # type: ignore[no-untyped-def]  # the protocol's own generic
        nonlocal turns
        turns += 1
        if turns == 3:  # read, begin, and now the first file
            await library.advance(lambda tx: sources.begin_sync(tx, source_id))
        return await library.advance(work)

    with pytest.raises(StaleState):
        await library.sources.sync(source, overtaken)
    assert await library.values("select path from voidbot.source_files") == []


async def test_a_failed_sync_is_noted_and_what_was_read_stays(library: Library, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.md").write_text("anvil")
    source_id = await library.add(SourceKind.FOLDER, folder)
    await library.sync(source_id)
    folder.rename(tmp_path / "away")
    for _ in range(2):
        with pytest.raises(Misconfigured, match="cannot be read"):
            await library.sync(source_id)
    failing = await library.source(source_id)
    assert failing.state is SourceState.FAILING and "cannot be read" in failing.error
    assert len(await library.find("anvil")) == 1
    (tmp_path / "away").rename(folder)
    await library.sync(source_id)
    assert (await library.source(source_id)).state is SourceState.ACTIVE


# Hostile repositories


def armed(checkout: Checkout, marker: Path) -> None:
    """Let every setting that can run a program run one that leaves a mark."""
    script = checkout.folder.parent / "run.sh"
    script.write_text(f"#!/bin/sh\necho ran >> {marker}\ncat\n")
    script.chmod(0o755)
    hooks = checkout.folder / ".git" / "hooks"
    for name in ("post-checkout", "reference-transaction", "pre-auto-gc", "post-index-change"):
        (hooks / name).write_text(script.read_text())
        (hooks / name).chmod(0o755)
    for key in (
        *("core.fsmonitor", "core.pager", "core.sshCommand", "core.askPass", "gpg.program", "diff.external"),
        *("filter.evil.smudge", "filter.evil.clean", "filter.evil.process", "diff.evil.textconv", "alias.ls-tree"),
        *("core.editor", "sequence.editor", "credential.helper", "interactive.diffFilter", "core.gitProxy"),
        "uploadpack.packObjectsHook",
    ):
        checkout.git("config", key, str(script))
    checkout.git("config", "log.showSignature", "true")
    checkout.git("config", "core.hooksPath", str(hooks))
    checkout.git("config", "remote.origin.url", f"ext::{script}")
    checkout.git("config", "remote.origin.promisor", "true")
    checkout.git("config", "extensions.partialClone", "origin")


async def test_nothing_of_a_repository_is_run(library: Library, checkout: Checkout, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    checkout.write(".gitattributes", "*.md filter=evil diff=evil\n")
    checkout.write(".gitmodules", f'[submodule "x"]\n  path = x\n  url = ext::sh -c "echo ran >> {marker}"\n')
    checkout.commit("first", a_md="anvil")
    checkout.commit("second", b_md="bellows")
    armed(checkout, marker)
    source_id = await library.add(SourceKind.GIT, checkout.folder)
    report = await library.sync(source_id)
    activity = await library.recent(source_id, "", 5)
    named = {(each.path, each.reason) for each in report.left_out}
    assert (".gitattributes", LeftOut.FILTER) in named and ("hooks/post-checkout", LeftOut.HOOK) in named
    assert any(path.startswith("ext::sh") and reason is LeftOut.SUBMODULE_ADDRESS for path, reason in named)
    assert len(activity.commits) == 2 and len(await library.find("anvil")) == 1
    assert not marker.exists()
    checkout.git("status")  # plain git does run what is set up there
    assert marker.exists()


async def test_a_missing_object_is_not_fetched_by_a_program(
    library: Library, checkout: Checkout, tmp_path: Path
) -> None:
    checkout.commit("first", a_md="anvil")
    blob = checkout.git("rev-parse", "HEAD:a.md")
    armed(checkout, tmp_path / "marker")
    (checkout.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    report = await library.sync(await library.add(SourceKind.GIT, checkout.folder))
    assert ("a.md", LeftOut.NOT_READABLE) in [(named.path, named.reason) for named in report.left_out]
    assert not (tmp_path / "marker").exists()


async def test_odd_paths_are_named_and_left_out(library: Library, checkout: Checkout) -> None:
    flat = [b"new\nline.md", b"bad\xff.md", b"..", b"\x1b[2J.md", b".git", b"good.md", b"logo.png", b"yarn.lock"]
    checkout.commit_tree(
        *(b"100644 blob BLOB\t" + path for path in flat),
        b"120000 blob BLOB\tlink.md",
        b"160000 commit " + b"1" * 40 + b"\tmodule",
    )
    source_id = await library.add(SourceKind.GIT, checkout.folder)
    report = await library.sync(source_id)
    assert [hit.path for hit in await library.find("words")] == ["good.md"]
    assert {(named.path, named.reason) for named in report.left_out} == {
        ("new\\nline.md", LeftOut.UNSAFE_PATH),
        ("bad\\xff.md", LeftOut.UNSAFE_PATH),
        ("..", LeftOut.UNSAFE_PATH),
        ("\\x1b[2J.md", LeftOut.UNSAFE_PATH),
        (".git", LeftOut.UNSAFE_PATH),
        ("link.md", LeftOut.SYMLINK),
        ("module", LeftOut.SUBMODULE),
        ("logo.png", LeftOut.UNKNOWN_TYPE),
        ("yarn.lock", LeftOut.LOCK_FILE),
    }


async def test_files_are_taken_by_size_kind_and_attributes(library: Library, checkout: Checkout) -> None:
    checkout.write(".gitattributes", "gen/* linguist-generated\n")
    checkout.write("huge.md", "x" * (512 * 1024 + 1))
    checkout.write("deep/" * 70 + "a.md", "deep")
    checkout.write("nul.md", b"a" * 9000 + b"\0")
    checkout.commit("first", gen__api_py="x = 1", own_py="y = 2", skip__b_md="b")
    source_id = await library.add(SourceKind.GIT, checkout.folder, exclude=["skip"])
    report = await library.sync(source_id)
    reasons = {
        named.path.rpartition("/")[2]: named.reason for named in report.left_out if named.reason is not LeftOut.HOOK
    }
    assert reasons == {
        "huge.md": LeftOut.TOO_LARGE,
        "a.md": LeftOut.UNSAFE_PATH,
        "nul.md": LeftOut.BINARY,
        "api.py": LeftOut.GENERATED,
        "b.md": LeftOut.NOT_ASKED_FOR,
    }
    assert report.files == 3  # .gitattributes, own.py, and nul.md, which was read and gave nothing


async def test_what_is_no_repository_or_has_no_commit_is_said(library: Library, tmp_path: Path) -> None:
    Checkout.new(tmp_path / "empty")
    (tmp_path / "empty" / "below").mkdir()
    expected = {"empty": "no commit", "empty/below": "not a git repository", "nowhere": "no folder"}
    for place, words in expected.items():
        source_id = await library.add(SourceKind.GIT, tmp_path / place, place)
        with pytest.raises((InputRejected, Misconfigured), match=words):
            await library.sync(source_id)


async def test_git_that_is_missing_or_hangs_is_said(shelf: Database, checkout: Checkout, tmp_path: Path) -> None:
    checkout.commit("first", a_md="anvil")
    library = await Library.open(shelf, tmp_path / "home", Git(searched=str(tmp_path)))
    source_id = await library.add(SourceKind.GIT, checkout.folder)
    with pytest.raises(Misconfigured, match="git: not found; install it"):
        await library.sync(source_id)
    hanging = tmp_path / "git"
    hanging.write_text("#!/bin/sh\n/bin/sleep 60\n")
    hanging.chmod(0o755)
    library = replace(library, sources=Sources(Git(searched=str(tmp_path), timeout_s=0.2), tmp_path))
    with pytest.raises(TimedOut, match="rev-parse took more than"):
        await library.sync(source_id)


# Addresses


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The address of a folder served over plain HTTP on this machine, as git's simplest servers do."""
    (tmp_path / "served").mkdir()
    handler = functools.partial(Quiet, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


async def test_an_address_is_mirrored_and_brought_up_to_date(
    shelf: Database, checkout: Checkout, served: str, tmp_path: Path
) -> None:
    library = await Library.open(shelf, tmp_path / "home", Git(schemes=("http",), timeout_s=30))
    bare = tmp_path / "served" / "lore.git"
    checkout.commit("first", a_md="anvil")
    checkout.git("clone", "--quiet", "--bare", ".", str(bare))
    Checkout(bare).git("update-server-info")
    source_id = await library.add(SourceKind.GIT, f"{served}/lore.git")
    await library.sync(source_id)
    checkout.commit("second", b_md="bellows")
    checkout.git("push", "--quiet", str(bare), "main")
    Checkout(bare).git("update-server-info")
    report = await library.sync(source_id)
    assert (report.unchanged, report.added) == (1, 1)
    mirror = tmp_path / "home" / "sources" / f"{source_id}.git"
    assert not (mirror / "hooks").exists() and (mirror.stat().st_mode & 0o777) == 0o700
    missing = await library.add(SourceKind.GIT, f"{served}/other.git", "other")
    with pytest.raises(Unavailable, match="not found"):
        await library.sync(missing)


# Activity


async def test_a_burst_of_commits_is_spread_and_each_is_told_once(library: Library, checkout: Checkout) -> None:
    source_id = await library.add(SourceKind.GIT, checkout.folder)
    for n in range(3):
        checkout.commit(f"old {n}", a_md=str(n))
    await library.sync(source_id)
    first = await library.recent(source_id, "", 2)
    assert [commit.subject for commit in first.commits] == ["old 1", "old 2"]
    assert first.commits[0].author == "Ana" and first.commits[0].paths == ("a.md",)
    checkout.git("checkout", "--quiet", "-b", "side")
    for n in range(3):
        checkout.commit(f"side {n}", side_md=str(n))
    checkout.git("checkout", "--quiet", "main")
    for n in range(3):
        checkout.commit(f"main {n}", a_md=f"new {n}")
    checkout.git("merge", "--quiet", "--no-edit", "side")
    await library.sync(source_id)
    told, cursor, more = [], first.last, 1
    while more:
        activity = await library.recent(source_id, cursor, 2)
        told += [commit.subject for commit in activity.commits]
        assert len(activity.commits) <= 2 and not activity.rewritten
        if cursor == first.last:  # new commits during a burst wait for their turn
            checkout.commit("later", a_md="later")
            await library.sync(source_id)
        cursor, more = activity.last, activity.more
    assert sorted(told) == ["Merge branch 'side'", *(f"{where} {n}" for where in ("main", "side") for n in range(3))]
    assert [each for each in told if each.startswith("main")] == ["main 0", "main 1", "main 2"]
    rest = await library.recent(source_id, cursor, 2)
    assert [commit.subject for commit in rest.commits] == ["later"]
    assert (await library.recent(source_id, rest.last, 2)).commits == ()


async def test_rewritten_history_begins_again_where_it_parted(library: Library, checkout: Checkout) -> None:
    base = checkout.commit("base", a_md="0")
    checkout.commit("dropped", a_md="1")
    source_id = await library.add(SourceKind.GIT, checkout.folder)
    await library.sync(source_id)
    cursor = (await library.recent(source_id, "", 5)).last
    checkout.git("reset", "--quiet", "--hard", base)
    checkout.commit("instead", a_md="2")
    await library.sync(source_id)
    activity = await library.recent(source_id, cursor, 5)
    assert activity.rewritten and [commit.subject for commit in activity.commits] == ["instead"]
    unknown = await library.recent(source_id, "0" * 40, 5)
    assert unknown.rewritten and [commit.subject for commit in unknown.commits] == ["base", "instead"]


async def test_words_of_commits_are_printable_and_bounded(library: Library, checkout: Checkout) -> None:
    checkout.write("a\tb.md", "x")
    checkout.commit("red \x1b[31m " + "long " * 100)
    source_id = await library.add(SourceKind.GIT, checkout.folder)
    await library.sync(source_id)
    (commit,) = (await library.recent(source_id, "", 5)).commits
    assert commit.subject.isprintable() and len(commit.subject) == 200 and commit.paths == ("a\\tb.md",)


# Folders and graphs


async def test_a_folder_gives_its_texts_and_nothing_behind_links(library: Library, tmp_path: Path) -> None:
    folder, outside = tmp_path / "texts", tmp_path / "outside"
    for place in (folder / "sub", folder / ".hidden", outside):
        place.mkdir(parents=True)
    (outside / "secret.md").write_text("swordfish")
    (folder / "sub" / "note.rst").write_text("anvil")
    (folder / "code.py").write_text("x = 1")
    (folder / ".hidden" / "h.md").write_text("hidden")
    (folder / "escape.md").symlink_to(outside / "secret.md")
    (folder / "way").symlink_to(outside)
    (folder / "again.md").symlink_to(folder / "sub" / "note.rst")
    os.mkfifo(folder / "pipe.md")
    source_id = await library.add(SourceKind.FOLDER, folder)
    report = await library.sync(source_id)
    assert {(named.path, named.reason) for named in report.left_out} == {
        ("escape.md", LeftOut.OUTSIDE),
        ("way", LeftOut.OUTSIDE),
        ("again.md", LeftOut.SYMLINK),
        ("pipe.md", LeftOut.NOT_A_FILE),
        ("code.py", LeftOut.UNKNOWN_TYPE),
    }
    assert [hit.path for hit in await library.find("anvil swordfish hidden")] == ["sub/note.rst"]


async def test_a_graph_is_replaced_whole_or_not_at_all(library: Library, tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    file.write_text(
        '{"directed": false, "nodes": [{"id": "a", "label": "Kiln", "community": 3}, {"id": 7}, {"id": "a"}],'
        ' "links": [{"source": "a", "target": 7, "relation": "heats", "confidence_score": 0.5},'
        ' {"source": "a", "target": "gone", "confidence_score": 7}]}'
    )
    source_id = await library.add(SourceKind.GRAPH, file)
    report = await library.sync(source_id)
    assert (report.nodes, report.edges, report.dangling, report.added) == (2, 1, 1, 1)
    assert await library.values("select label || ' ' || coalesce(cluster, -1) from voidbot.graph_nodes order by 1") == [
        "7 -1",
        "Kiln 3",
    ]
    for broken in ('{"nodes": [{"label": "no id"}], "links": []}', "no json", "[" * 100_000, '{"nodes": {}}'):
        file.write_text(broken)
        with pytest.raises(InputRejected, match="no graph"):
            await library.sync(source_id)
    assert len(await library.values("select ref from voidbot.graph_nodes")) == 2
    file.write_text('{"nodes": [{"id": "b"}], "edges": []}')
    assert (await library.sync(source_id)).changed == 1
    assert await library.values("select ref from voidbot.graph_nodes") == ["b"]


# Unattended


async def test_an_hourly_source_is_synced_once_an_hour(fresh_dsn: str, checkout: Checkout, tmp_path: Path) -> None:
    checkout.commit("first", a_md="anvil")
    async with running_line(fresh_dsn, home=tmp_path / "home") as line:
        library = await Library.open(line.database, tmp_path / "home")
        gone = await library.add(SourceKind.GIT, checkout.folder, "gone")
        await library.advance(lambda tx: sources.remove_source(tx, gone))
        await library.advance(lambda tx: jobs.enqueue(tx, [sync_job(gone, "now")]))  # removed meanwhile: no error
        await library.add(SourceKind.GIT, checkout.folder, hourly=True)
        await library.add(SourceKind.GIT, checkout.folder, "by_hand")
        assert [await library.advance(queue_hourly) for _ in range(2)] == [1, 0]
        await line.quiet()
        assert [hit.source for hit in await library.find("anvil")] == ["lore"]
        assert await library.values("select distinct state from queue.jobs") == ["done"]
        await ManualClock(line.database).advance(3600)
        assert await library.advance(queue_hourly) == 1
