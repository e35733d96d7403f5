"""Settings of models that cannot work are refused, and an unused SDK is never loaded."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from core.providers.model_settings import ModelSettings


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "openai"},
        {"kind": "anthropic"},
        {"base_url": "ftp://127.0.0.1"},
        {"base_url": "http://me:secret@127.0.0.1"},
        {"base_url": "http://127.0.0.1", "window_tokens": 10, "max_output_tokens": 10},
        {"base_url": "http://127.0.0.1", "colour": "red"},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ModelSettings(name="tea-1", **wrong)


def test_a_key_is_never_shown() -> None:
    settings = ModelSettings(name="tea-1", base_url="http://127.0.0.1", api_key=SecretStr("sk-do-not-show-this"))
    assert "sk-do-not-show-this" not in f"{settings} {settings!r} {settings.model_dump_json()}"


def loaded(code: str) -> set[str]:
    """Return the modules that a fresh process has after `code`."""
    tail = "; import sys; print(*sorted(sys.modules))"
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code + tail],
        cwd=root,
        env={"PYTHONPATH": str(root), "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_an_idle_process_loads_no_sdk() -> None:
    modules = loaded(
        "import core.providers.models; from core.providers.router import Router; Router({}, lambda *_: None, None, len)"
    )
    assert "core.providers.models" in modules
    assert not {"pydantic_ai", "openai", "anthropic", "httpx2", "xllamacpp"} & modules


def test_a_start_loads_no_library_of_migrations() -> None:
    modules = loaded(
        "from bot.cli import _parser; _parser(['up']); from core.store.engine import head_revision; head_revision()"
    )
    assert "bot.app" in modules
    assert not {"alembic", "sqlalchemy"} & modules


def test_a_command_loads_no_other() -> None:
    modules = loaded("from bot.cli import _parser; _parser(['jobs', 'list'])")
    assert "bot.operators" in modules
    assert not {"bot.app", "bot.doctor", "bot.import_command", "prompt_toolkit", "aiohttp"} & modules


def test_only_the_configured_sdk_is_loaded() -> None:
    modules = loaded(
        "from core.providers.models import connect; from core.providers.model_settings import *; "
        "connect(ModelSettings(name='m', base_url='http://127.0.0.1:1'), Limits(),"
        " clock=None, guard=None, estimate=len)"
    )
    assert {"pydantic_ai", "openai"} <= modules
    assert "anthropic" not in modules
