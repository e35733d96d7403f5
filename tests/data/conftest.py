"""The external evaluation folder, named by `make test-data DATA=FOLDER`."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Collect nothing here unless a folder was named: these tests measure against data that is not ours."""
    return None if os.environ.get("VOIDBOT_TEST_DATA") else True  # noqa: TID251  # the suite's own switch


@pytest.fixture(scope="session")
def folder() -> Path:
    """The folder of the evaluation data."""
    return Path(os.environ["VOIDBOT_TEST_DATA"])  # noqa: TID251  # the suite's own switch


def records(*files: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of some files, one a line."""
    for file in files:
        with file.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)
