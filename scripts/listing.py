"""Write the listing of files in `docs/architecture.md` anew, from the first line of each file's docstring."""

import ast
import sys
from collections.abc import Iterable
from pathlib import PurePosixPath

from scripts.house import PRODUCT, ROOT, Source, sources

PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "## Where each thing lives\n", "\nBeside the code: "
# From the outside in, as a reader meets them; folders that are not named here follow by name.
ORDER = ("bot", "bot/commands", "bot/web", "bot/adapters", "core", "core/domain", "core/store", "core/providers")


def listing(files: Iterable[Source]) -> str:
    """Return one table for each folder: every file with what it is."""
    folders: dict[str, list[Source]] = {}
    for source in sorted(files, key=lambda source: source.name):
        folders.setdefault(str(PurePosixPath(source.name).parent), []).append(source)
    ranks = {name: rank for rank, name in enumerate(ORDER)}
    lines: list[str] = []
    for folder in sorted(folders, key=lambda name: (ranks.get(name, len(ORDER)), name)):
        lines += [f"### {folder}", "", "| file | what it is |", "|---|---|"]
        lines += [f"| [`{each.name}`](../{each.name}) | {_what(each)} |" for each in folders[folder]]
        lines.append("")
    return "\n".join(lines)


def rewritten(page: str, files: Iterable[Source]) -> str:
    """Return the page with a fresh listing; the rest is left as it is."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{listing(files)}{END}{after}"


def _what(source: Source) -> str:
    return (ast.get_docstring(source.tree()) or "").partition("\n")[0].replace("|", "\\|")


def main() -> int:
    """Write the page; return 0."""
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), sources(*PRODUCT)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
