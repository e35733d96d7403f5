"""Templates: logic-less mustache with declared inputs, rendered in one pass.

Law: values are put in as they are and never read again, so text from people can hold any braces.
"""

import hashlib
import re
from dataclasses import dataclass, field

import pystache
import yaml
from pystache.context import ContextStack
from pystache.parser import ParsingError

from core.domain.errors import Misconfigured

Value = str | bool | list[dict[str, str | bool]]
_FORBIDDEN_TAG = re.compile(r"\{\{\s*[{&=>]")
_NAME = re.compile(r"[a-z][a-z_]*")


@dataclass(frozen=True, slots=True)
class Template:
    """A template that has been checked: `inputs` are exactly the names it uses."""

    name: str
    inputs: frozenset[str]
    body: str
    sha256: str
    _parsed: object = field(repr=False, compare=False)

    def render(self, /, **values: Value) -> str:
        """Return the text with `values` put in; unknown or missing names are a bug and raise."""
        unknown = set(values) - self.inputs
        if unknown:
            raise ValueError(f"template {self.name} does not take {', '.join(sorted(unknown))}")
        renderer = pystache.Renderer(escape=_as_it_is, missing_tags="strict", partials={})
        return str(renderer.render(self._parsed, values)).rstrip("\n")


# A start reads two dozen files; the library's own Python takes ten times as long as its C.
_LOADER: type[yaml.CSafeLoader | yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _as_it_is(value: str) -> str:
    return value


def split_front_matter(path: str, text: str) -> tuple[dict[str, object], str]:
    """Return the front matter of a file and its body without surrounding blank lines.

    Raises:
        Misconfigured: There is none, or it is not a YAML mapping.
    """
    match = re.match(r"---\n(.*?\n)---\n(.*)\Z", text.replace("\r\n", "\n"), re.DOTALL)
    if match is None:
        raise broken(path, "has no front matter", "begin the file with `---`, keys, `---`")
    try:
        head = yaml.load(match.group(1), Loader=_LOADER)  # noqa: S506  # safe, as both are
    except yaml.YAMLError as exc:
        raise broken(path, "has front matter that is not YAML", "mend the lines between the `---`") from exc
    if not isinstance(head, dict):
        raise broken(path, "has front matter without keys", "write `key: value` lines between the `---`")
    return {str(key): value for key, value in head.items()}, match.group(2).strip("\n")


def broken(path: str, what: str, fix: str) -> Misconfigured:
    """Return the error for a file that may not be used, with what to do about it."""
    return Misconfigured(f"{path} {what}; {fix}")


def digest(text: str) -> str:
    """Return the hash that is recorded for a file."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def parse_template(path: str, name: str, inputs: frozenset[str], body: str) -> Template:
    """Return the template after its tags were compared with its declared inputs.

    Raises:
        Misconfigured: A tag is malformed or of a kind we do not use, or the inputs are not the used names.
    """
    if match := _FORBIDDEN_TAG.search(body):
        raise broken(path, f"uses a tag `{match.group()}`", "use only {{name}}, {{#name}}, {{^name}}, {{/name}}")
    try:
        parsed = pystache.parse(body, raise_on_mismatch=True)
    except (ParsingError, IndexError) as exc:  # IndexError: an end without a beginning at the very start
        raise broken(path, "has sections that do not close", "pair every {{#name}} with {{/name}}") from exc
    visitor = _Visitor()
    rest = parsed.render(visitor, ContextStack())
    if "{{" in rest or "}}" in rest:
        raise broken(path, "has a tag that is not closed", "pair every {{ with }}")
    if odd := sorted(used for used in visitor.used if not _NAME.fullmatch(used)):
        raise broken(path, f"uses the input `{odd[0]}`", "name inputs with small letters and _")
    if undeclared := sorted(visitor.used - inputs):
        raise broken(path, f"uses the undeclared input `{undeclared[0]}`", "add it to `inputs`")
    if unused := sorted(inputs - visitor.used):
        raise broken(path, f"declares the input `{unused[0]}` and does not use it", "take it from `inputs`")
    return Template(name, inputs, body, digest(body), parsed)


class _Visitor:
    """Stands in for pystache's engine and walks every branch of a template, noting the names it asks for."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def fetch_string(self, context: ContextStack, name: str) -> str:
        self.used.add(name)
        return ""

    def fetch_section_data(self, context: ContextStack, name: str) -> list[dict[str, str]]:
        self.used.add(name)
        return [{}]  # one round through the section

    def resolve_context(self, context: ContextStack, name: str) -> None:
        self.used.add(name)  # asked for by inverted sections only; None shows what is inside

    def escape(self, value: str) -> str:
        return value
