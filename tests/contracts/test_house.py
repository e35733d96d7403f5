"""The rules of the house, scanned over all source; every scan is shown to find what it looks for."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.observability import METRICS
from core.store.erasure import ERASERS
from core.store.mod_erasure import MODERATED
from core.store.tables import METADATA
from scripts.house import ROOT, Source, sources, too_long_files, too_long_functions
from tests.contracts import scans

PRODUCT = sources("bot", "core")
# This file names what it forbids.
TESTS = [each for each in sources("tests", "scripts", "benchmarks") if not each.name.endswith("test_house.py")]

# Who may write a table. One module each; the reason stands beside a second one.
OWNERS: dict[str, set[str]] = {
    "places": {"communities", "rooms", "room_aliases"},
    "archive": {"messages", "message_revisions"},
    "attachments": {"attachments"},
    "reactions": {"reactions"},
    "units": {"units", "term_df", "index_stats"},
    "embeddings": {"embedding_models", "embed_queue"},
    "imports": {"import_runs", "import_errors"},
    "sources": {
        "sources",
        "source_communities",
        "source_rooms",
        "source_files",
        "source_chunks",
        "source_cursors",
    },
    "graphs": {"graphs", "graph_nodes", "graph_edges"},
    "people": {"people", "person_names", "memberships"},
    "access": {"roles", "membership_roles", "room_access", "room_access_roles", "room_access_users"},
    "platforms": {"platform_memory", "platform_starts"},
    "inbox": {"inbox", "turns"},
    "decisions": {"decisions"},
    "outbox": {"outbox", "outbox_parts", "receipts", "receipt_sources"},
    "shown": {"console_messages"},
    "purses": {"purses"},
    "budgets": {"purse_windows", "reservations", "usage"},
    "rates": {"rates"},
    "settings": {"settings"},
    "facts": {"profile_facts", "fact_anchors"},
    "links": {"person_links", "link_codes"},
    "plans": {"plans"},
    "exports": {"exports"},
    "erasures": {"erasure_ledger", "erasures", "erasure_needles", "opt_outs"},
    "audit": {"audit"},
    "state": {"minds", "state_entries"},
    "journal": {"state_operations"},
    "passes": {"pass_runs", "pass_slots", "pass_phases", "pass_artifacts", "pass_windows", "pass_controls"},
    "mod_rules": {"mod_rules", "mod_signals"},
    "review": {"review_window"},
    "cases": {"cases", "case_evidence", "case_events", "case_reports"},
    "ledger": {"mod_keys", "sanctions", "sanction_subjects", "sanction_texts", "sanction_reversals"},
    "acts": {"acts", "native_acts"},
    "appeals": {"appeals"},
    "raids": {"raids"},
    "spam_books": {"spam_examples", "spam_models"},
}
SECOND_WRITERS = {
    ("messages", "imports"): "a history goes in batch by batch, in statements over a whole batch",
    ("message_revisions", "imports"): "the revisions of the same batch, in the same statements",
    ("attachments", "imports"): "the files' names of the same batch",
    ("rooms", "imports"): "counts last_archived_seq up in the statement that stores the batch",
    ("people", "import_people"): "people of a history, a batch at once",
    ("person_names", "import_people"): "their names as of then, dated; live names stand above them",
    ("memberships", "import_people"): "stays that are over; it makes nobody a present member",
    ("rooms", "moving"): "gives a chat's rooms its new id; what was met twice becomes one",
    ("room_aliases", "moving"): "the old id, in the same transaction",
    ("communities", "moving"): "the community that is the chat, in the same transaction",
    ("messages", "retention"): "deletes the rows of what an erasure has just emptied",
    ("platform_memory", "proxies"): "notes in intake's transaction that a room's messages are copied",
    ("communities", "access"): "raises access_epoch together with the access rows that it dates",
    ("rooms", "archive"): "counts last_archived_seq up in the statement that stores the message",
    ("inbox", "decisions"): "makes the event part of its turn in the statement that says so",
    ("turns", "decisions"): "the same statement notes the job that answers",
    ("messages", "index_books"): "has the units of a room made anew, at an operator's word",
    ("units", "index_books"): "takes the hashes away in the same statement, so that equal units are written too",
    ("messages", "units"): "settles index_state in the statement that writes the units",
    ("embed_queue", "units"): "queues a unit's vector in the statement that writes the unit",
    ("embed_queue", "vector_books"): "queues anew what the nightly comparison finds wrong",
    ("people", "erasures"): "blocks a person in the transaction that writes the erasure down",
    ("pass_runs", "pass_books"): "deletes runs, with their phases and what they saved, that are kept no longer",
    ("pass_artifacts", "pass_books"): "deletes what runs saved once its time is over or its messages are gone",
    ("outbox", "choices"): "what can be chosen below a message, and what was: columns of their own",
    ("communities", "mod_rules"): "the switches of moderation, and that they and the rules have changed",
    ("rooms", "mod_rules"): "whether a room is watched",
    ("rooms", "review"): "counts last_archived_seq up in the statement that keeps what is watched",
    ("audit", "jobs"): "the queue's own account of a requeue, in the requeue's transaction",
}
# An erasure empties what is a person's wherever it stands: one hook a table, in one module and its part for moderation.
ERASED = {hook.table for hook in ERASERS} | {"communities"}
QUEUE = {"core/store/jobs.py", "core/store/leases.py"}
# SDKs are imported where a provider or a front end is built, so that an idle process does not hold them. The other two
# places are those of ADR 0030.
LAZY = {
    "bot/cli.py",
    "core/store/engine.py",
    "core/providers/models.py",
    "core/providers/local_llm.py",
    "core/providers/minilm.py",
    "core/providers/embeddings.py",
    "core/providers/qdrant.py",
    "bot/platforms.py",
}
# The Clock port's one implementation. Everything else is given it.
CLOCKS = {"bot/clock.py"}
# Every error becomes an outcome, a line, or a dropped figure here; elsewhere errors are named.
CATCHERS = {
    "core/chat/attachments.py",
    "core/chat/typing.py",
    "bot/adapters/console_chat.py",
    "bot/adapters/discord_gateway.py",
    "bot/adapters/discord_lanes.py",
    "bot/adapters/telegram_chat.py",
    "core/jobs/executor.py",
    "core/moderation/fast/lane.py",
}

Scan = Callable[[Source], list[str]]


def found(scan: Scan, *, allowed: set[str] | frozenset[str] = frozenset()) -> list[str]:
    return [line for source in PRODUCT if source.name not in allowed for line in scan(source)]


def sample(text: str) -> Source:
    return Source("core/sample.py", text)


# Sizes


def test_no_file_is_longer_than_the_limit() -> None:
    assert too_long_files(PRODUCT) == []


def test_no_function_is_longer_than_the_limit() -> None:
    assert too_long_functions(PRODUCT) == []


def test_sizes_are_seen() -> None:
    body = "\n".join("    x = 1" for _ in range(61))
    assert too_long_functions([sample(f"def f():\n{body}\n")]) == ["core/sample.py:f: 62"]
    assert too_long_files([sample("x = 1\n" * 401)]) == ["core/sample.py: 401"]


def test_a_docstring_does_not_count_into_its_function() -> None:
    (function,) = sample('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n').functions()
    assert (function.lines, function.documented) == (2, True)


def test_folders_are_at_most_three_deep() -> None:
    assert [source.name for source in PRODUCT if source.name.count("/") > 3] == []


# Text rules: a scan, what it must find, what it must not find

CASES: dict[str, tuple[Scan, list[str], list[str]]] = {
    "SQL asks one clock": (
        scans.sql_clocks,
        ['S = "select now()"', 'S = "update voidbot.x set at = current_timestamp"', 'S = f"select {a}, now( )"'],
        ['S = "select voidbot.now()"', '"""Select what is true now() or later."""', 'S = "known()"'],
    ),
    "Python asks one clock": (
        scans.python_clocks,
        ["datetime.now(UTC)", "x = time.monotonic()", "import datetime\ndatetime.datetime.utcnow()", "f(time.time)"],
        ["clock.now()", "clock.monotonic()", "self._clock.now()", "loop.time()"],
    ),
    "one place commits": (
        scans.transactions,
        ['x.execute("commit")', 'S = "begin; set local x = 1"', "tx.commit()", "connection.transaction()"],
        ["database.transaction()", '"""Commit."""', 'S = "begin with the oldest"', "tx.on_commit(f)"],
    ),
    "imports stand at the top": (
        scans.inner_imports,
        ["def f():\n    import os", "async def f():\n    if x:\n        from a import b"],
        ["import os\ndef f(): ...", "if x:\n    import os"],
    ),
    "no TYPE_CHECKING, no global": (
        scans.type_checking,
        ["if TYPE_CHECKING: ...", "if typing.TYPE_CHECKING: ...", "def f():\n    global x"],
        ["CHECKING = 1"],
    ),
    "errors are named": (
        scans.broad_catches,
        ["try: ...\nexcept: ...", "try: ...\nexcept Exception: ...", "try: ...\nexcept BaseException as e:\n    x = e"],
        ["try: ...\nexcept ValueError: ...", "try: ...\nexcept BaseException:\n    undo()\n    raise"],
    ),
    "no prompt text in Python": (
        scans.prompt_texts,
        ['S = "You are a helpful member of this room."', 'S = "Answer in one sentence."', f'S = "{"word " * 60}"'],
        ['S = "the room is closed to you"', f'S = "select {"word, " * 60}"', '"""You are a reader."""'],
    ),
    "silence has a reason, and nothing is promised": (
        scans.unreasoned,
        ["x = 1  # noqa", "x = 1  # noqa: S101", "x = 1  # type: ignore  # why", "# TODO more"],
        ["x = 1  # noqa: S101  # a test", "x = 1  # type: ignore[misc]  # the driver's", 'S = "TODO"'],
    ),
}
ALLOWED = {
    "Python asks one clock": CLOCKS,
    "one place commits": {"core/store/engine.py"},
    "imports stand at the top": LAZY,
    "errors are named": CATCHERS,
}


@pytest.mark.parametrize("rule", CASES)
def test_the_product_keeps_the_rule(rule: str) -> None:
    assert found(CASES[rule][0], allowed=ALLOWED.get(rule, set())) == []


@pytest.mark.parametrize("rule", CASES)
def test_the_scan_finds_what_breaks_the_rule_and_nothing_else(rule: str) -> None:
    scan, bad, good = CASES[rule]
    assert [text for text in bad if not scan(sample(text))] == []
    assert [text for text in good if scan(sample(text))] == []


def test_sql_files_ask_one_clock() -> None:
    assert scans.sql_file_clocks("select now(); -- now()\n") == ["line 1: select now(); -- now()"]
    files = sorted((ROOT / "migrations").rglob("*.sql"))
    assert files and [line for file in files for line in scans.sql_file_clocks(file.read_text())] == []


def test_imports_go_in_no_circle() -> None:
    a, b = Source("core/a.py", "from core import b"), Source("core/b.py", "from core.a import x")
    assert scans.import_cycles([a, b]) == ["core.a > core.b > core.a"]
    assert scans.import_cycles(PRODUCT) == []


# One home each


@pytest.mark.parametrize(
    ("name", "home"), [("PublicText", "core/chat/deliver.py"), ("ModelRequest", "core/prompt/builder.py")]
)
def test_one_place_makes_it(name: str, home: str) -> None:
    assert {place.partition(":")[0] for place in found(lambda source: scans.makes(source, name))} == {home}
    assert scans.makes(sample(f"x = {name}(1)"), name) and not scans.makes(sample(f"x: {name} = y"), name)


def test_every_table_has_an_owner_and_no_owner_a_table_that_is_not() -> None:
    owned = [table for tables in OWNERS.values() for table in tables]
    assert len(owned) == len(set(owned))
    assert {table.name for table in METADATA.tables.values()} - set(owned) == set()


def test_only_the_owner_writes_a_table() -> None:
    allowed = {(f"voidbot.{table}", owner) for owner, tables in OWNERS.items() for table in tables}
    allowed |= {(f"voidbot.{table}", writer) for table, writer in SECOND_WRITERS}
    allowed |= {(f"voidbot.{table}", "erasure") for table in ERASED}
    allowed |= {(f"voidbot.{hook.table}", "mod_erasure") for hook in MODERATED}
    written = scans.writes(PRODUCT)
    strangers = {
        (table, file)
        for table, files in written.items()
        for file in files
        if table.startswith("voidbot.") and not (file.startswith("core/store/") and (table, Path(file).stem) in allowed)
    }
    assert strangers == set()


def test_only_the_queue_s_modules_write_the_queue() -> None:
    written = {table: files for table, files in scans.writes(PRODUCT).items() if table.startswith("queue.")}
    assert {table for table, files in written.items() if len(files) > 1 or not files <= QUEUE} == set()


def test_writes_are_seen() -> None:
    text = 'A = "with x as (delete from voidbot.turns) insert into queue.job"\nB = f"update voidbot.inbox set {c}"'
    assert set(scans.writes([sample(text)])) == {"voidbot.turns", "queue.job", "voidbot.inbox"}


def test_every_figure_that_is_observed_is_declared() -> None:
    declared = {metric.name: set(metric.labels) for metric in METRICS}
    wrong = []
    for source in PRODUCT:
        for node in ast.walk(source.tree()):
            if isinstance(node, ast.Call) and scans.dotted(node.func).rpartition(".")[2] in ("observe", "_observe"):
                match node.args:
                    case [ast.Constant(value=str(name)), _, ast.Dict(keys=keys)]:
                        labels = {key.value for key in keys if isinstance(key, ast.Constant)}
                        if declared.get(name) != labels:
                            wrong.append(f"{source.name}:{node.lineno} {name} {sorted(map(str, labels))}")
    assert wrong == []


# Fakes, locks, docs


def test_every_fake_implements_a_port() -> None:
    files = ("core/ports.py", "core/act_ports.py")
    classes = [node for file in files for node in _classes(file)]
    ports = {node.name for node in classes if "Protocol" in map(scans.dotted, node.bases)}
    fakes = [node for node in _classes("tests/fakes.py") if not _is_value(node)]
    assert fakes and [fake.name for fake in fakes if not ports & set(map(scans.dotted, fake.bases))] == []


def test_tests_replace_nothing_of_ours() -> None:
    words = ("monkeypatch", "unittest.mock", "mocker:")
    assert [source.name for source in TESTS if any(word in source.text for word in words)] == []


def test_nothing_is_skipped() -> None:
    marks = re.compile(r"pytest\.(mark\.)?(skip|xfail|skipif|importorskip)\b")
    assert [source.name for source in TESTS if marks.search(source.text)] == []


LOCKS = sorted(path.name for path in ROOT.glob("requirements*.lock"))


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_pins_with_hashes_and_names_no_address(name: str) -> None:
    text = (ROOT / name).read_text()
    entries = re.split(r"\n(?=\S)", text.strip())
    assert [entry.split()[0] for entry in entries if "==" not in entry or "--hash=sha256:" not in entry] == []
    assert not re.search(r"://|--(extra-)?index-url|--find-links|(?m:^#)", text)
    assert not re.search(r"(?mi)^litellm\b", text)


def test_the_run_lock_is_part_of_the_dev_lock() -> None:
    def pins(name: str) -> set[str]:
        return set(re.findall(r"(?m)^[a-z0-9.-]+==[^ ;\\]+", (ROOT / name).read_text()))

    assert pins("requirements.lock") - pins("requirements-dev.lock") == set()


def test_files_named_by_the_architecture_page_exist() -> None:
    named = [
        name
        for page in (ROOT / "docs").glob("architecture.md")
        for name in re.findall(r"`((?:bot|core)/[\w/]+\.py)`", page.read_text())
    ]
    assert [name for name in named if not (ROOT / name).is_file()] == []


def _classes(name: str) -> list[ast.ClassDef]:
    tree = ast.parse((ROOT / name).read_text())
    return [node for node in tree.body if isinstance(node, ast.ClassDef)]


def _is_value(node: ast.ClassDef) -> bool:
    """Return whether a class only holds what a test hands to a fake."""
    return any("dataclass" in ast.unparse(each) for each in node.decorator_list)
