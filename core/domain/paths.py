"""Which files of a source are read: safe paths, known text types, no lock or generated files. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from core.domain.sources import MOST_FILE_BYTES, LeftOut, ending, file_name

PATH_CHARS = 1_024
PATH_DEPTH = 64
SNIFFED_BYTES = 8_192
MOST_PATTERNS = 1_000
PATTERN_CHARS = 200

FOLDER_TYPES = frozenset({".md", ".txt", ".rst"})
_CODE = (
    ".py .pyi .js .jsx .mjs .cjs .ts .tsx .vue .svelte .html .css .scss .less .sh .bash .zsh .fish .ps1",
    ".bat .c .h .cc .cpp .cxx .hpp .hh .m .mm .java .kt .kts .scala .groovy .gradle .go .rs .rb .php .pl",
    ".pm .lua .r .jl .swift .dart .ex .exs .erl .hrl .hs .elm .ml .mli .fs .fsx .cs .vb .clj .cljs .edn",
    ".lisp .el .scm .zig .nim .v .sol .tf .hcl .nix .cmake .mk .make .dockerfile .gd .glsl .wgsl .asm .s",
    ".sql .graphql .proto",
)
_PROSE = (
    ".md .mdx .markdown .rst .txt .adoc .org .tex .json .jsonc .toml .yaml .yml .ini .cfg .conf",
    ".properties .xml .csv .tsv .service",
)
_BARE = (
    "readme license licence copying notice authors contributors changelog changes news todo install",
    "makefile dockerfile containerfile jenkinsfile vagrantfile procfile rakefile gemfile justfile",
    "codeowners .gitignore .gitattributes .editorconfig .dockerignore",
)
_TYPES = frozenset(" ".join(_CODE + _PROSE).split())
_NAMES = frozenset(" ".join(_BARE).split())
_LOCKS = frozenset(
    {
        "package-lock.json",
        "npm-shrinkwrap.json",
        "pnpm-lock.yaml",
        "packages.lock.json",
        "go.sum",
        "gradle.lockfile",
        "project.assets.json",
    }
)
_GENERATED = ("*.min.*", "*.map", "*_pb2.py", "*_pb2_grpc.py", "*_pb2.pyi", "*.pb.go", "*.pb.h", "*.pb.cc", "*.g.dart")
_GENERATED_FOLDERS = frozenset({"node_modules", "bower_components", "__pycache__"})
_SAYS_GENERATED = re.compile(rb"(?m)^\W{0,8}(?:Code generated .{1,200} DO NOT EDIT|@generated\b)")
_LFS = b"version https://git-lfs.github.com/spec/"


def shown(path: bytes | str) -> str:
    """Return a path as it may be printed: what is no text, or would steer a terminal, stands escaped."""
    text = path.decode("utf-8", "backslashreplace") if isinstance(path, bytes) else path
    safe = "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape", "surrogatepass").decode("ascii") for sign in text
    )
    return safe if len(safe) <= PATH_CHARS else safe[: PATH_CHARS - 1] + "…"


def safe_path(raw: bytes) -> str | None:
    """Return a path below the root; None for one that is absolute, climbs, steers, is no UTF-8, or is too long."""
    try:
        path = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    parts = path.split("/")
    if len(path) > PATH_CHARS or len(parts) > PATH_DEPTH or "\\" in path or not path.isprintable():
        return None
    climbs = any(part in ("", ".", "..") or part.casefold() == ".git" for part in parts)
    return None if climbs else path


def refuse_by_name(
    path: str, size: int, *, include: Sequence[str] = (), exclude: Sequence[str] = (), types: frozenset[str] = _TYPES
) -> LeftOut | None:
    """Return why a file is left out before it is read, or None. `include` empty: everything."""
    name = file_name(path).casefold()
    if (include and not matches_any(include, path)) or matches_any(exclude, path):
        return LeftOut.NOT_ASKED_FOR
    if name in _LOCKS or name.endswith((".lock", ".lockb")):
        return LeftOut.LOCK_FILE
    if any(fnmatchcase(name, pattern) for pattern in _GENERATED) or _GENERATED_FOLDERS & set(path.split("/")[:-1]):
        return LeftOut.GENERATED
    known = ending(name) in types or (types is _TYPES and name in _NAMES)
    if not known:
        return LeftOut.UNKNOWN_TYPE
    return LeftOut.TOO_LARGE if size > MOST_FILE_BYTES else None


def read_text(content: bytes) -> str | LeftOut:
    """Return the words of a file, or why it is left out once its bytes are known."""
    if len(content) > MOST_FILE_BYTES:
        return LeftOut.TOO_LARGE
    if b"\0" in content:  # Postgres has no text with one, wherever it stands
        return LeftOut.BINARY
    if content.startswith(_LFS):
        return LeftOut.LFS_POINTER
    if _SAYS_GENERATED.search(content[:SNIFFED_BYTES]):
        return LeftOut.GENERATED
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return LeftOut.NOT_UTF8


# Patterns, as .gitattributes and .gitignore have them


def matches_any(patterns: Iterable[str], path: str) -> bool:
    """Return whether any pattern matches the path below its folder."""
    return any(matches(pattern, path) for pattern in patterns)


def matches(pattern: str, path: str) -> bool:
    """Return whether a pattern matches: without a slash any name on the way, with one the path from the root.

    `*` and `?` stay within a name, `**` spans folders, and a folder stands for everything in it. The time it
    takes is bounded by the lengths of both: patterns come from repositories too.
    """
    if len(pattern) > PATTERN_CHARS:
        return False
    folder = pattern.endswith("/")
    wanted = pattern.strip("/").split("/")
    names = path.split("/")
    if len(wanted) == 1 and not pattern.startswith("/"):
        return any(fnmatchcase(name, wanted[0]) for name in (names[:-1] if folder else names))
    reached = {0}
    for at, want in enumerate(wanted):
        if want == "**":
            reached = set(range(min(reached), len(names) + 1)) if reached else set()
        else:
            reached = {i + 1 for i in reached if i < len(names) and fnmatchcase(names[i], want)}
        if not reached:
            return False
        if at == len(wanted) - 1:
            return any(i < len(names) or not folder for i in reached)
    return False


@dataclass(frozen=True, slots=True)
class Attribute:
    """One line of a .gitattributes file: below `folder`, paths that match are generated, or are not after all."""

    folder: str
    pattern: str
    generated: bool


def read_attributes(path: str, content: bytes) -> tuple[list[Attribute], bool]:
    """Return what a .gitattributes file says of generated files, and whether it asks for a filter."""
    folder = path.rpartition("/")[0]
    found: list[Attribute] = []
    asks = False
    for line in content.decode("utf-8", "replace").splitlines():
        words = line.split()
        if len(words) < 2 or words[0].startswith(("#", "[attr]", "!")):
            continue
        for word in words[1:]:
            asks = asks or word.startswith("filter=")
            if word in ("linguist-generated", "linguist-generated=true"):
                found.append(Attribute(folder, words[0], generated=True))
            elif word in ("-linguist-generated", "!linguist-generated", "linguist-generated=false"):
                found.append(Attribute(folder, words[0], generated=False))
    return found, asks


def is_generated(attributes: Sequence[Attribute], path: str) -> bool:
    """Return what the last matching line says; nearer folders come later in `attributes`."""
    for attribute in reversed(attributes):
        inside = not attribute.folder or path.startswith(attribute.folder + "/")
        below = path[len(attribute.folder) + 1 :] if attribute.folder else path
        if inside and matches(attribute.pattern, below):
            return attribute.generated
    return False
