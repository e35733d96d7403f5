"""Scans over source text for the rules of the house; each returns what breaks its rule, with the place."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from scripts.house import Source

_SQL = re.compile(r"(?is)^\s*(select|insert\s+into|update|delete\s+from|with|create|alter|truncate|listen|notify)\b")
_SQL_CLOCK = re.compile(
    r"(?i)(?<!voidbot\.)\b(now|clock_timestamp|statement_timestamp|transaction_timestamp|timeofday)\s*\(\s*\)"
    r"|\bcurrent_(timestamp|date|time)\b|\blocaltime(stamp)?\b"
)
_SQL_TRANSACTION = re.compile(r"(?i)^\s*(begin|commit|rollback|start\s+transaction|savepoint|release)\s*(;|$|\s+to\b)")
_SQL_WRITE = re.compile(
    r"(?i)\b(?:insert\s+into|update|delete\s+from|truncate(?:\s+table)?|merge\s+into|copy)\s+(?:only\s+)?"
    r"(voidbot|queue)\.([a-z_]+)"
)
_CLOCK_CALLS = frozenset(
    {
        *("datetime.now", "datetime.utcnow", "datetime.today", "date.today", "time.time", "time.time_ns"),
        *("time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.localtime", "time.gmtime"),
    }
)
_TO_A_MODEL = re.compile(
    r"(?i)\byou are (a|an|the)\b|\byour (task|role|job) is\b"
    r"|\b(respond|reply|answer) (only )?(with|in) (only )?(a|an|one|two|json|plain|at)\b"
    r"|\b(do not|don't|never) (invent|mention|reveal|answer|repeat)\b"
)
_PROSE_WORDS = 60


def literals(source: Source) -> Iterator[tuple[int, str]]:
    """Yield every string that is no docstring, with its line; the fixed pieces of f-strings are joined."""
    tree = source.tree()
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    skipped: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and isinstance(node, documented):
            # A string that stands alone documents what is above it, also below an assignment.
            skipped |= {id(each.value) for each in body if isinstance(each, ast.Expr)}
        if isinstance(node, ast.JoinedStr):
            pieces = [each for each in node.values if isinstance(each, ast.Constant)]
            skipped |= {id(piece) for piece in pieces}
            yield node.lineno, " ".join(str(piece.value) for piece in pieces)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` for a chain of names; empty for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=inner, attr=attr):
            return f"{dotted(inner)}.{attr}".lstrip(".")
        case _:
            return ""


def calls(source: Source) -> Iterator[tuple[int, str]]:
    """Yield every call by the name it is called with, with its line."""
    for node in ast.walk(source.tree()):
        if isinstance(node, ast.Call):
            yield node.lineno, dotted(node.func)


def sql_clocks(source: Source) -> list[str]:
    """Return SQL that asks another clock than `voidbot.now()`."""
    found = [(line, text) for line, text in literals(source) if _SQL.search(text) and _SQL_CLOCK.search(text)]
    return [f"{source.name}:{line}" for line, _ in found]


def sql_file_clocks(text: str) -> list[str]:
    """Return the lines of an SQL file that ask another clock, comments left out."""
    lines = enumerate(text.splitlines(), start=1)
    return [f"line {n}: {line.strip()}" for n, line in lines if _SQL_CLOCK.search(line.partition("--")[0])]


def python_clocks(source: Source) -> list[str]:
    """Return calls and uses of Python's clocks; the Clock port is asked instead."""
    names = ((node.lineno, dotted(node)) for node in ast.walk(source.tree()) if isinstance(node, ast.Attribute))
    return [f"{source.name}:{line} {name}" for line, name in names if ".".join(name.split(".")[-2:]) in _CLOCK_CALLS]


def transactions(source: Source) -> list[str]:
    """Return what begins or ends a transaction by itself."""
    found = [f"{source.name}:{line} {text!r}" for line, text in literals(source) if _SQL_TRANSACTION.match(text)]
    for line, name in calls(source):
        owner, _, method = name.rpartition(".")
        if method in ("commit", "rollback", "begin") or (method == "transaction" and "conn" in owner):
            found.append(f"{source.name}:{line} {name}(")
    return found


def makes(source: Source, name: str) -> list[str]:
    """Return where the class `name` of ours is made."""
    return [
        f"{source.name}:{line}"
        for line, called in calls(source)
        if called in (name, f"speech.{name}", f"prompt.{name}")
    ]


def writes(sources: Iterable[Source]) -> Mapping[str, set[str]]:
    """Return for each table `schema.name` the files whose SQL writes it."""
    found: dict[str, set[str]] = {}
    for source in sources:
        for _, text in literals(source):
            for schema, table in _SQL_WRITE.findall(text):
                found.setdefault(f"{schema}.{table}", set()).add(source.name)
    return found


def inner_imports(source: Source) -> list[str]:
    """Return imports inside functions."""
    return [
        f"{source.name}:{inner.lineno}"
        for node in ast.walk(source.tree())
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    ]


def type_checking(source: Source) -> list[str]:
    """Return uses of `TYPE_CHECKING` and of `global`."""
    return [
        f"{source.name}:{node.lineno}"
        for node in ast.walk(source.tree())
        if isinstance(node, ast.Global)
        or (isinstance(node, ast.Name) and node.id == "TYPE_CHECKING")
        or (isinstance(node, ast.Attribute) and node.attr == "TYPE_CHECKING")
    ]


def broad_catches(source: Source) -> list[str]:
    """Return handlers that take every error and do not raise it again."""
    found = []
    for node in ast.walk(source.tree()):
        if isinstance(node, ast.ExceptHandler):
            broad = node.type is None or dotted(node.type) in ("Exception", "BaseException")
            raises = any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(node))
            if broad and not raises:
                found.append(f"{source.name}:{node.lineno}")
    return found


def prompt_texts(source: Source) -> list[str]:
    """Return strings that speak to a model, or are so much prose that they belong in a template."""
    found = []
    for line, text in literals(source):
        prose = len(re.findall(r"[A-Za-z]{2,}", text)) >= _PROSE_WORDS and not _SQL.search(text) and "<" not in text
        if _TO_A_MODEL.search(text) or prose:
            found.append(f"{source.name}:{line} {text[:60]!r}")
    return found


def unreasoned(source: Source) -> list[str]:
    """Return silenced checks without a reason beside them, and promises to do something later."""
    found = []
    for n, line in enumerate(source.text.splitlines(), start=1):
        silenced = re.search(r"#\s*(noqa|type: ignore)\b([^#]*)(#\s*\S.*)?", line)
        if silenced and not silenced[3]:
            found.append(f"{source.name}:{n} no reason")
        if silenced and not re.match(r"(:\s*[A-Z]+\d+|\[[a-z-]+)", silenced[2]):
            found.append(f"{source.name}:{n} no code")
        if re.search(r"#.*\b(TODO|FIXME|XXX|HACK)\b", line):
            found.append(f"{source.name}:{n} a promise")
    return found


def import_cycles(sources: Iterable[Source]) -> list[str]:
    """Return one line for each cycle of imports between these files."""
    files = {source.name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): source for source in sources}
    edges = {name: _imported(source) & files.keys() - {name} for name, source in files.items()}
    found: list[str] = []
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            found.append(" > ".join([*path[path.index(name) :], name]))
        elif name not in done:
            for target in sorted(edges[name]):
                visit(target, (*path, name))
            done.add(name)

    for name in sorted(edges):
        visit(name, ())
    return found


def _imported(source: Source) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(source.tree()):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from package import module` imports the module; `from module import name` the module above it.
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names
