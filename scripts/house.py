"""Print how large the house is: files, functions, docstrings, comments, tests by source line."""

import ast
import io
import re
import statistics
import sys
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("bot", "core")
FILE_LINES = 400
FUNCTION_LINES = 60
# Every table in one place is worth more than the limit.
LONG_FILES = frozenset({"core/store/tables.py"})


@dataclass(frozen=True, slots=True)
class Function:
    """One function or method; `lines` counts from `def` to its end, its docstring left out."""

    place: str
    lines: int
    public: bool
    documented: bool


@dataclass(frozen=True, slots=True)
class Source:
    """One file of Python. `name` is its path from the root."""

    name: str
    text: str

    @property
    def lines(self) -> int:
        """How many lines the file has."""
        return len(self.text.splitlines())

    def tree(self) -> ast.Module:
        """Return the parsed file; whoever reads it leaves it as it is, for it is parsed once."""
        return _parsed(self.text, self.name)

    def functions(self) -> Iterator[Function]:
        """Yield every function and method, nested ones too."""
        for node in ast.walk(self.tree()):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1 - _docstring_lines(node)
                documented = ast.get_docstring(node) is not None
                yield Function(f"{self.name}:{node.name}", length, not node.name.startswith("_"), documented)

    def comment_lines(self) -> int:
        """Return how many lines hold a comment."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return len({token.start[0] for token in tokens if token.type == tokenize.COMMENT})

    def docstring_lines(self) -> int:
        """Return how many lines docstrings take."""
        owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        return sum(_docstring_lines(node) for node in ast.walk(self.tree()) if isinstance(node, owners))

    def code_lines(self) -> int:
        """Return how many lines are neither empty, comment nor docstring."""
        filled = [line for line in self.text.splitlines() if line.strip() and not line.strip().startswith("#")]
        return len(filled) - self.docstring_lines()


@cache
def _parsed(text: str, name: str) -> ast.Module:
    return ast.parse(text, name)


def sources(*folders: str, root: Path = ROOT) -> list[Source]:
    """Return the Python files below these folders of the project, sorted by name."""
    paths = sorted(path for folder in folders for path in (root / folder).rglob("*.py"))
    return [Source(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")) for path in paths]


def too_long_files(files: Iterable[Source]) -> list[str]:
    """Return the files over the limit, with their sizes."""
    return [f"{file.name}: {file.lines}" for file in files if file.lines > FILE_LINES and file.name not in LONG_FILES]


def too_long_functions(files: Iterable[Source]) -> list[str]:
    """Return the functions over the limit, with their sizes."""
    functions = (function for file in files for function in file.functions())
    return [f"{function.place}: {function.lines}" for function in functions if function.lines > FUNCTION_LINES]


def _docstring_lines(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(node, clean=False) is None:
        return 0
    first = node.body[0]
    return (first.end_lineno or first.lineno) - first.lineno + 1


def _spread(sizes: Sequence[int], limit: int) -> str:
    if not sizes:
        return "none"
    ordered = sorted(sizes)
    p90 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.9))]
    over = sum(size > limit for size in sizes)
    return (
        f"{len(sizes)}, median {statistics.median(sizes):.0f}, p90 {p90}, longest {ordered[-1]}, over {limit}: {over}"
    )


def report(product: Sequence[Source], tests: Sequence[Source]) -> list[str]:
    """Return the report, one line for each figure; aims stand in brackets."""
    functions = [function for file in product for function in file.functions()]
    asked = [function for function in functions if function.public]
    lines = sum(file.lines for file in product)
    code = sum(file.code_lines() for file in product)
    tested = sum(file.code_lines() for file in tests)
    cases = [f for file in tests for f in file.functions() if re.search(r":test_", f.place)]
    documented = sum(function.documented for function in asked)
    return [
        f"files      {_spread([file.lines for file in product], FILE_LINES)}  (median <= 100, p90 <= 350)",
        f"functions  {_spread([f.lines for f in functions], FUNCTION_LINES)}  (median <= 10, p90 <= 35)",
        f"docstrings {documented} of {len(asked)} public functions, "
        f"{100 * sum(file.docstring_lines() for file in product) / max(lines, 1):.0f} % of lines",
        f"comments   {100 * sum(file.comment_lines() for file in product) / max(lines, 1):.1f} % of lines  (3 to 6)",
        f"tests      {tested / max(code, 1):.2f} lines of code for each of the product  (1.2 to 1.6)",
        f"cases      {_spread([f.lines for f in cases], FUNCTION_LINES)}  (median <= 10)",
        f"code       {code} lines of product, {tested} of tests",
    ]


def main() -> int:
    """Print the report and what is over its limit; return 1 if something is."""
    product, tests = sources(*PRODUCT), sources("tests")
    print("\n".join(report(product, tests)))
    over = too_long_files(product) + too_long_functions(product)
    for place in over:
        print(f"over       {place}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
