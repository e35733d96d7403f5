"""Chunks: they are the file's lines word for word, they hold every line once, and they follow its structure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.chunk_formats import chunk_file
from core.domain.chunks import (
    MOST_CHARS,
    MOST_LINES,
    Chunk,
    ChunkRef,
    cited_as,
    inner_words,
    locator_of,
    name_words,
    split_lines,
    telling_lines,
)
from core.domain.sources import ChunkId, SourceId

PIECES = st.sampled_from(
    [
        *("# A", "## B b", "Title", "=====", "-----", "***", "```", "```py", "~~~~", "> ```", "- item", "| a | b |"),
        *("---", "def f(x):", "    return x", "class C:", "    def m(self): pass", "    x = [", "    ]", "@deco"),
        *("# comment", "x = 1; y = 2", "if x:", "else:", "try:", "except E:", "    pass", '"""', "fn go() {", "}"),
        *("func (t *T) Run() {", "export class Way {", "// note", "", "  ", "\t", "word " * 30, "long " * 500),
        *("x" * 2500, "a\rb", "end\r", "ünïcode ßtraße", "\x0c", "\x00", "::", ".. note::", "async def g(): ..."),
    ]
)
NAMES = st.sampled_from(["a.md", "a.rst", "a.txt", "a.py", "a.go", "Makefile"])


def held(chunks: tuple[Chunk, ...]) -> list[str]:
    """Put chunks together again, line by line; the pieces of one long line become that line."""
    lines: list[str] = []
    for chunk in chunks:
        if chunk.line_start <= len(lines):
            assert chunk.line_start == chunk.line_end == len(lines)
            lines[-1] += chunk.text
        else:
            assert chunk.line_start == len(lines) + 1
            lines += chunk.text.split("\n")
            assert len(lines) == chunk.line_end
    return lines


@given(NAMES, st.lists(PIECES | st.text(max_size=40), max_size=150))
def test_chunks_are_the_lines_of_the_file_each_once_and_within_the_limits(name: str, pieces: list[str]) -> None:
    text = "\n".join(pieces)
    chunks = chunk_file(name, text)
    assert held(chunks) == split_lines(text)
    assert all(len(chunk.text) <= MOST_CHARS for chunk in chunks)
    assert all(chunk.line_end - chunk.line_start < MOST_LINES for chunk in chunks)


MARKDOWN = """\
Before any heading.

# Handbook

## Doors

The front door opens at 10.

```sh
# not a heading
open --door front
```

Keys
----

Mara keeps them.
"""


def test_markdown_is_cut_at_headings_and_each_chunk_knows_their_path() -> None:
    chunks = chunk_file("docs/handbook.md", MARKDOWN)
    assert [(chunk.symbol, chunk.line_start, chunk.line_end) for chunk in chunks] == [
        ("", 1, 2),
        ("Handbook > Doors", 3, 13),
        ("Handbook > Keys", 14, 17),
    ]


def test_a_code_fence_is_not_cut_where_it_fits_into_one_chunk() -> None:
    code = "\n\n".join(f"step_{n} = {'x' * 60}" for n in range(20))
    fence = f"```py\n{code}\n```"
    chunks = chunk_file("a.md", f"# Steps\n\n{'words ' * 180}\n\n{fence}\n\nafter\n")
    assert [fence in chunk.text for chunk in chunks].count(True) == 1


def test_front_matter_holds_no_headings() -> None:
    (chunk,) = chunk_file("a.md", "---\n# a comment of the front matter\ntitle: x\n---\nwords\n")
    assert chunk.symbol == ""


def test_titles_of_restructured_text_have_levels_in_their_order() -> None:
    text = "=====\nGuide\n=====\n\nStart\n-----\n\nHere.\n\nDeeper\n~~~~~~\n\nThere.\n\nEnd\n---\n\nDone.\n"
    assert [chunk.symbol for chunk in chunk_file("a.rst", text)] == [
        "Guide > Start",
        "Guide > Start > Deeper",
        "Guide > End",
    ]


def long_function(name: str, indent: str = "") -> str:
    body = "\n".join(f"{indent}    total_{n} = work({n}, {'y' * 40})" for n in range(18))
    return f"{indent}# about {name}\n{indent}@cached\n{indent}def {name}(self):\n{body}\n"


def test_python_is_cut_at_definitions_with_their_decorators_and_comments() -> None:
    text = f"import os\n\n\n{long_function('alpha')}\n\n{long_function('beta')}"
    chunks = chunk_file("a.py", text)
    assert [(chunk.symbol, chunk.line_start) for chunk in chunks] == [("", 1), ("alpha", 4), ("beta", 27)]
    assert chunks[-1].text.startswith("# about beta\n@cached\ndef beta")


def test_a_large_class_is_cut_at_its_methods() -> None:
    methods = "\n".join(long_function(name, "    ") for name in ("open", "close", "turn"))
    chunks = chunk_file("a.py", f'class Door:\n    """A door."""\n\n{methods}')
    assert [chunk.symbol for chunk in chunks][-2:] == ["Door.close", "Door.turn"]
    assert chunks[0].text.startswith("class Door:")


def test_small_definitions_share_a_chunk_that_names_all_of_them() -> None:
    (chunk,) = chunk_file("a.py", "def one():\n    return 1\n\n\ndef two():\n    return 2\n")
    assert chunk.symbol == "one, two"


@pytest.mark.parametrize(
    "text",
    ["def broken(:\n", "x = '\\q'\n", "(" * 5000, "x" + "+x" * 100_000, "-" * 100_000 + "1", "x\x00y", "# only\n"],
    ids=["syntax", "escape", "brackets", "sum", "signs", "nul", "comment"],
)
def test_python_that_does_not_parse_is_cut_all_the_same(text: str, recwarn: pytest.WarningsRecorder) -> None:
    assert held(chunk_file("a.py", text)) == split_lines(text)
    assert not recwarn.list


def test_other_code_is_cut_at_definitions_and_blank_lines() -> None:
    body = "\n".join(f"\tstep{n}({'z' * 40})" for n in range(20))
    text = f"// Run walks.\nfunc (t *Tree) Run() {{\n{body}\n}}\nfunc Stop() {{\n\n{body}\n}}\n"
    chunks = chunk_file("tree.go", text)
    assert [(chunk.symbol, chunk.text.splitlines()[0]) for chunk in chunks] == [
        ("Run", "// Run walks."),
        ("Stop", "func Stop() {"),
    ]


def test_names_are_found_by_their_words() -> None:
    assert name_words("core/jobs/httpClient_v2.py", "HTTPServer.readAll").split() == [
        *("httpClient_v2.py", "core", "jobs", "http", "Client", "v2", "py"),
        *("HTTPServer.readAll", "HTTP", "Server", "read", "All"),
    ]
    assert inner_words("call os.path.join or readFile, plainly") == "os path join read File"


def test_a_locator_names_file_version_and_lines() -> None:
    assert locator_of("handbook", "docs/a.md", "1f0c2ab99", 10, 42) == "handbook:docs/a.md@1f0c2ab#L10-L42"


@pytest.mark.parametrize(
    ("question", "chars", "told"),
    [
        ("how long do glazes dry?", 40, (4, 5)),
        ("which vent is open?", 40, (0, 3)),
        ("the vents of dried glaze", 90, (0, 5)),
        ("nothing of it", 20, (0, 1)),
        ("glaze", 5, (4, 5)),
    ],
)
def test_the_lines_that_say_most_are_told(question: str, chars: int, told: tuple[int, int]) -> None:
    text = "# Kiln\n\nThe vent stays open.\n\nCobalt glaze dries for a day.\n\n"
    assert telling_lines(text, question, chars) == told


@given(st.text(alphabet="ab \n", max_size=60), st.integers(1, 30))
def test_what_is_told_is_short_and_never_nothing(text: str, chars: int) -> None:
    lines = text.split("\n")
    start, end = telling_lines(text, "aab bab", chars)
    assert 0 <= start < end <= len(lines)
    assert end == start + 1 or len("\n".join(lines[start:end])) <= chars


def test_what_a_receipt_keeps_of_a_passage_is_read_back() -> None:
    ref = ChunkRef(SourceId(3), ChunkId(41), "1f0c2ab", 7, 9)
    assert ChunkRef.read(str(ref)) == ref
    assert [ChunkRef.read(text) for text in ("", "41", "3/41", f"{ref} ", "3/x@1f0c2ab#L1-L2")] == [None] * 5


def test_a_path_that_would_be_read_as_markup_is_cited_as_code() -> None:
    assert cited_as("s", "a b/c.md", 7, 7, "1f0c2ab9", "h") == "s: a b/c.md, line 7 at commit 1f0c2ab"
    for path in ("a/__init__.py", "*a*.md", "@everyone.md", "a`b.md"):
        assert f"`{path.replace('`', '')}`" in cited_as("s", path, 7, 9, "", "1f0c2ab9")
