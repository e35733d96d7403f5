"""The benchmark of reply links counts as published scores do and refuses data that are not in its format."""

import json
from pathlib import Path

import pytest

from benchmarks.threads import main

ROOM = [
    ("Mila", "Does the kiln reach 1200 degrees?"),
    ("===", "Tariq came in"),
    ("Olga", "Mila: 1250, if it is empty"),
    ("Tariq", "Hello, who has the key of the shed?"),
    ("Ben", "Tariq: it hangs behind the door"),
]
KEYS = ("room", "message_id", "author", "ts", "text")
NONE = {"reply_to": None, "session": None, "caption": None}
LINKS: list[tuple[str, list[str]]] = [("0", []), ("2", ["0"]), ("3", ["3"]), ("4", ["3", "1"])]


def write(folder: Path) -> Path:
    folder.mkdir()
    rooms = [
        {
            **dict(zip(KEYS, ("yard", str(place), author, f"2026-03-02T09:{place:02}:00.000Z", text), strict=True)),
            **NONE,
        }
        for place, (author, text) in enumerate(ROOM)
    ]
    links = [{"room": "yard", "message_id": message, "reply_to": answered} for message, answered in LINKS]
    (folder / "rooms.jsonl").write_text("\n".join(map(json.dumps, rooms)) + "\n")
    (folder / "links.jsonl").write_text("\n".join(map(json.dumps, links)) + "\n")
    return folder


def test_each_set_gives_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "yard")
    write(tmp_path / "yard2")
    assert main(["--data", str(tmp_path), "--quick"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["set"] for line in lines] == ["yard", "yard2"]
    assert set(lines[0]) == {"set", "n", "link_f", "window_20", "per_s", "per_s_fresh", "rooms", "config"}
    # Four predictions, all right, and five links: one of the two of the last message cannot be named as well.
    assert (lines[0]["n"], lines[0]["link_f"], lines[0]["window_20"]) == (4, 88.9, 1.0)


@pytest.mark.parametrize(
    ("file", "number", "broken"),
    [
        ("rooms.jsonl", 2, "{"),
        ("rooms.jsonl", 3, '{"room": "yard"}'),
        ("links.jsonl", 4, '{"room": "yard", "message_id": "4", "reply_to": ["77"]}'),
    ],
)
def test_a_malformed_line_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, number: int, broken: str
) -> None:
    path = write(tmp_path / "yard") / file
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[: number - 1], broken, *lines[number:]]))
    assert main(["--data", str(tmp_path / "yard")]) == 2
    heard = capsys.readouterr()
    assert f"{path}:{number}:" in heard.err and heard.out == ""


def test_absent_data_end_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path / "nowhere")]) == 2
    (write(tmp_path / "yard") / "rooms.jsonl").unlink()
    assert main(["--data", str(tmp_path)]) == 2
    assert "rooms.jsonl" in capsys.readouterr().err
