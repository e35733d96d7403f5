"""A real small model over real HTTP: what the double claims about servers holds for one."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr

from core.domain.errors import Misconfigured, TooLong
from core.domain.prompt import Finish, ModelRequest, PromptMessage, Tier
from core.prompt.tokens import FAMILIES, estimate
from core.providers.local_llm import local_model
from core.providers.model_settings import LIMITS, ModelSettings
from core.providers.models import ConnectedModel, connect
from core.providers.router import Attempt, Router
from tests.fakes import ManualClock

pytestmark = pytest.mark.llm

small = partial(estimate, rates=FAMILIES["small"])
joined = partial(connect, clock=ManualClock(), guard=lambda: None, estimate=small)


def asking(text: str, tokens: int = 24) -> ModelRequest:
    system = "You are a friendly member of a chat about tea. Answer in one sentence."
    return ModelRequest(system, (PromptMessage("user", text),), (), None, (), tokens, "0" * 64)


@pytest.fixture(scope="module")
async def settings() -> AsyncIterator[ModelSettings]:
    async with local_model() as running:
        yield running


@pytest.fixture
async def model(settings: ModelSettings) -> AsyncIterator[ConnectedModel]:
    connected = joined(settings, LIMITS[Tier.FAST])
    yield connected
    await connected.aclose()


async def test_it_completes(model: ConnectedModel) -> None:
    completion = await model.complete(asking("What is green tea?"))
    assert completion.text.strip()
    assert completion.usage.input_tokens > 0
    assert completion.usage.output_tokens > 0
    assert not completion.usage.estimated
    assert completion.model == "smollm2-135m"


async def test_it_streams_in_pieces(model: ConnectedModel) -> None:
    deltas = [delta async for delta in model.stream(asking("What is green tea?"))]
    last = deltas[-1].completion
    assert last is not None
    assert len(deltas) > 3
    assert last.text == "".join(delta.text for delta in deltas)
    assert last.usage.output_tokens > 0


async def test_the_output_limit_holds(model: ConnectedModel) -> None:
    completion = await model.complete(asking("Tell a very long story about a teapot.", tokens=8))
    assert completion.finish is Finish.LENGTH
    assert completion.usage.output_tokens <= 8


async def test_a_prompt_beyond_its_window_is_too_long(model: ConnectedModel) -> None:
    with pytest.raises(TooLong):
        await model.complete(asking("tea " * 6_000))


async def test_a_wrong_key_is_misconfigured(settings: ModelSettings) -> None:
    stranger = joined(settings.model_copy(update={"api_key": SecretStr("wrong")}), LIMITS[Tier.FAST])
    with pytest.raises(Misconfigured):
        await stranger.complete(asking("What is green tea?"))
    await stranger.aclose()


async def test_a_schema_is_enforced(settings: ModelSettings) -> None:
    schema = {
        "type": "object",
        "properties": {"drink": {"enum": ["tea", "coffee"]}},
        "required": ["drink"],
        "additionalProperties": False,
    }
    request = ModelRequest("Answer as JSON.", (PromptMessage("user", "Tea or coffee?"),), (), schema, (), 40, "0" * 64)
    connected = joined(settings.model_copy(update={"structured": True}), LIMITS[Tier.FAST])
    completion = await connected.complete(request)
    await connected.aclose()
    assert "".join(completion.text.split()) in ('{"drink":"tea"}', '{"drink":"coffee"}')


async def test_it_answers_through_the_router(settings: ModelSettings) -> None:
    attempts: list[Attempt] = []
    nobody = settings.model_copy(update={"name": "nobody", "base_url": "http://127.0.0.1:9/v1"})
    router = Router({Tier.FAST: [nobody, settings]}, joined, ManualClock(), small)
    route = router.route(Tier.DEEP)
    assert route is not None
    begun, first, text = time.monotonic(), None, ""
    async for delta in route.stream(lambda _: asking("What is black tea?"), chat=True, note=attempts.append):
        first = first or time.monotonic() - begun
        text += delta.text
    await router.aclose()
    assert text.strip()
    assert [(each.model, each.error) for each in attempts] == [("nobody", "Unavailable"), ("smollm2-135m", None)]
    used = attempts[1].usage
    print(f"\nreal model: {used}, first delta {first:.2f} s, all {attempts[1].seconds:.2f} s: {text!r}")


async def test_the_estimate_is_near_the_count_of_a_real_tokenizer(model: ConnectedModel) -> None:
    text = "We met on Tuesday to plan the tea tasting; Ana brings three kinds of oolong and a kettle. " * 5
    completion = await model.complete(asking(text, tokens=1))
    ours = small(asking(text).system) + small(text)
    print(f"\nestimate {ours} for {completion.usage.input_tokens} real tokens, template included")
    assert 0.7 < ours / completion.usage.input_tokens < 1.5


async def test_the_server_does_not_outlive_a_killed_parent() -> None:
    code = (
        "import asyncio\n"
        "from core.providers.local_llm import local_model\n"
        "async def main():\n"
        "    async with local_model() as settings:\n"
        "        print(settings.base_url, flush=True)\n"
        "        await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    root = Path(__file__).parents[2]
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    where = urlsplit((await asyncio.to_thread(parent.stdout.readline)).strip())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    async with asyncio.timeout(30):
        while await answers(str(where.hostname), where.port or 0):
            await asyncio.sleep(0.05)


async def answers(host: str, port: int) -> bool:
    """Whether somebody listens there."""
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True
