"""Hosts in a text and in the links that it bears, also written so that no program takes them for links. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from core.domain.messages import Link

MOST_HOSTS = 400
_HOST = re.compile(r"(?<![\w.@-])[^\W_][\w-]*(?:\.[\w-]+)+", re.UNICODE)
_DOT = re.compile(r"\.[^\W_]")
_DEFANGED = re.compile(r"\s?[\[({]\s?(?:\.|dot|punkt)\s?[\])}]\s?", re.IGNORECASE)
_SUFFIX = re.compile(r"^(?:[^\W\d_]{2,}|xn--[a-z0-9-]+)$")
_SECOND_LEVEL = frozenset({"co", "com", "net", "org", "gov", "edu", "ac", "gob", "or", "ne"})
# What people write with a dot and do not mean as a host.
_FILES = frozenset({
    "py", "js", "ts", "txt", "md", "jpg", "jpeg", "png", "gif", "mp3", "mp4", "exe", "dll", "zip", "rar", "pdf",
    "csv", "json", "yaml", "yml", "toml", "html", "htm", "css", "xml", "log", "conf", "cfg", "ini", "sh", "c", "h",
    "cpp", "hpp", "rs", "go", "java", "kt", "rb", "php", "sql", "deb", "rpm", "iso", "img", "tar", "gz", "bz2",
    "doc", "docx", "xls", "xlsx", "ppt", "odt", "svg", "webp",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Host:
    """A host and where it stands in the text; `span` None: only in a hidden link. `shown`: what the link shows."""

    name: str
    span: tuple[int, int] | None
    shown: str = ""


@dataclass(frozen=True, slots=True)
class Hosts:
    """Every host of one message, each once."""

    found: tuple[Host, ...]

    @property
    def any(self) -> bool:
        """Whether there is a link at all."""
        return bool(self.found)


def find_hosts(text: str, links: Sequence[Link]) -> Hosts:
    """Return the hosts that a message names or leads to."""
    found: dict[str, Host] = {}
    for host in (*_linked(text, links), *_written(text)):
        if len(found) >= MOST_HOSTS:
            break
        if host.name not in found:
            found[host.name] = host
    return Hosts(tuple(found.values()))


def _linked(text: str, links: Sequence[Link]) -> Iterator[Host]:
    for link in links:
        if name := host_of(link.url):
            at = text.find(link.shown) if link.shown else -1
            shown = first_host(link.shown) if link.shown != link.url else ""
            yield Host(name, (at, at + len(link.shown)) if at >= 0 else None, shown)


def _written(text: str) -> Iterator[Host]:
    if "[" in text or "(" in text or "{" in text:
        mended = _DEFANGED.sub(".", text)
        if mended != text:
            yield from (Host(name, None) for match in _HOST.finditer(mended) if (name := _clean(match.group())))
    if not _DOT.search(text):
        return
    for match in _HOST.finditer(text):
        name = _clean(match.group())
        if name and (name.rpartition(".")[2] not in _FILES or text[match.start() - 3 : match.start()] == "://"):
            yield Host(name, match.span())


def host_of(url: str) -> str:
    """Return the host of an address; empty if it has none."""
    try:
        return _clean(urlsplit(url if "://" in url else f"//{url}").hostname or "")
    except ValueError:
        return ""


def first_host(text: str) -> str:
    """Return the first host that a text names; empty if it names none."""
    return next((name for match in _HOST.finditer(text) if (name := _clean(match.group()))), "")


def _clean(host: str) -> str:
    """Return a host as lists hold it, decoded and without `www`; empty if it cannot be one."""
    host = host.lower().strip(".-").removeprefix("www.")
    suffix = host.rpartition(".")[2]
    if not _SUFFIX.match(suffix):
        return ""
    if "xn--" in host:
        try:
            return host.encode("ascii").decode("idna")
        except UnicodeError:
            return host
    return host


def parents(host: str) -> Iterator[str]:
    """Yield a host and each that it is part of, down to two labels."""
    while "." in host:
        yield host
        host = host.partition(".")[2]


def registrable(host: str) -> str:
    """Return the part of a host that somebody has registered."""
    labels = host.split(".")
    keep = 3 if len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVEL else 2
    return ".".join(labels[-keep:])
