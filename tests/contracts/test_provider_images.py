"""Images on their way to a model, over real HTTP: in each protocol's own words, and never to one without sight."""

import base64
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pydantic import SecretStr

from core.domain.errors import Refused
from core.domain.images import Image, image_of
from core.domain.messages import Attachment
from core.domain.prompt import Completion, ModelRequest, PromptMessage, Tier
from core.providers.model_settings import Limits, ModelSettings, ProviderKind
from core.providers.models import connect
from core.providers.router import Router
from tests.doubles.images import gif, png
from tests.doubles.model_server import Fail, ModelServer, Say
from tests.fakes import ManualClock

BOTH_KINDS = pytest.mark.parametrize("kind", list(ProviderKind))
YES = Say(["A cat."])
BAD_IMAGE = Fail(400, {"error": {"message": "could not process image", "type": "invalid_request_error"}})


def image(data: bytes) -> Image:
    made = image_of(Attachment("image", "cat"), data)
    assert isinstance(made, Image)
    return made


def request(*images: Image) -> ModelRequest:
    return ModelRequest(
        "Be brief.", (PromptMessage("user", "What is this?", images),), (), None, (), 100, "a" * 64,
        image_tokens=1_000 * len(images),
    )  # fmt: skip


def settings_for(kind: ProviderKind, server: ModelServer, **more: Any) -> ModelSettings:
    url = server.url if kind is ProviderKind.OPENAI else server.root
    return ModelSettings(name="eyes", kind=kind, base_url=url, api_key=SecretStr("k"), **more)


async def asked(settings: ModelSettings, asked_for: ModelRequest) -> Completion:
    limits = Limits(first_s=5, between_s=5, total_s=10)
    model = connect(settings, limits, clock=ManualClock(), guard=lambda: None, estimate=len)
    try:
        return await model.complete(asked_for)
    finally:
        await model.aclose()


def pictures_in(body: dict[str, Any], kind: ProviderKind) -> list[tuple[str, bytes]]:
    """Return type and bytes of the images that arrived, in order."""
    content = body["messages"][-1]["content"]
    if isinstance(content, str):
        return []
    if kind is ProviderKind.OPENAI:
        urls = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
        return [(url.partition(";")[0].removeprefix("data:"), base64.b64decode(url.partition(",")[2])) for url in urls]
    sources = [part["source"] for part in content if part["type"] == "image"]
    return [(source["media_type"], base64.b64decode(source["data"])) for source in sources]


@BOTH_KINDS
async def test_images_arrive_whole_and_in_order_before_the_words(kind: ProviderKind) -> None:
    async with ModelServer(YES) as server:
        await asked(settings_for(kind, server, vision=True), request(image(png()), image(gif())))
        body = server.calls[0].body
    assert pictures_in(body, kind) == [("image/png", png()), ("image/gif", gif())]
    assert body["messages"][-1]["content"][-1]["text"] == "What is this?"


@BOTH_KINDS
async def test_a_model_without_sight_is_never_called_with_one(kind: ProviderKind) -> None:
    async with ModelServer(YES) as server:
        with pytest.raises(AssertionError):
            await asked(settings_for(kind, server), request(image(png())))
        assert not server.calls


@BOTH_KINDS
async def test_an_estimated_call_counts_its_images(kind: ProviderKind) -> None:
    async with ModelServer(replace(YES, usage=None)) as server:
        completion = await asked(settings_for(kind, server, vision=True), request(image(png())))
    assert completion.usage.estimated and completion.usage.input_tokens > 1_000


async def routed(*models: ModelSettings) -> tuple[Completion, list[bool]]:
    """Return the answer of a list of models, and whether each call had sight."""
    asked_for: list[bool] = []

    def build(settings: ModelSettings) -> ModelRequest:
        asked_for.append(settings.vision)
        return request(*([image(png())] if settings.vision else []))

    clock = ManualClock()
    joined = partial(connect, clock=clock, guard=lambda: None, estimate=len)
    router = Router({Tier.FAST: models}, joined, clock, len)
    try:
        route = router.route(Tier.FAST)
        assert route is not None
        return await route.complete(build), asked_for
    finally:
        await router.aclose()


@BOTH_KINDS
@pytest.mark.parametrize("failure", [BAD_IMAGE, Fail(500)])
async def test_words_are_answered_where_a_provider_will_not_take_the_image(kind: ProviderKind, failure: Fail) -> None:
    async with ModelServer(failure, YES) as server:
        completion, sight = await routed(settings_for(kind, server, vision=True))
        bodies = [call.body for call in server.calls]
    assert completion.text == "A cat." and sight == [True, False]
    assert [len(pictures_in(body, kind)) for body in bodies] == [1, 0]


async def test_a_second_refusal_is_final() -> None:
    async with ModelServer(BAD_IMAGE) as server:
        with pytest.raises(Refused):
            await routed(settings_for(ProviderKind.OPENAI, server, vision=True))
        assert len(server.calls) == 2


async def test_a_fallback_without_sight_is_asked_without_images() -> None:
    async with ModelServer(Fail(503), YES) as server:
        first = settings_for(ProviderKind.OPENAI, server, vision=True)
        completion, sight = await routed(first, first.model_copy(update={"name": "blind", "vision": False}))
        last = server.calls[-1].body
    assert completion.model == "blind" and sight == [True, False]
    assert pictures_in(last, ProviderKind.OPENAI) == []
