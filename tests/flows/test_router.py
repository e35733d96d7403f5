"""From a tier to an answer: fallback, rebuilding, breaker, places, prices; over HTTP against the double."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from core.domain.errors import BadOutput, Misconfigured, Refused, TooLong, Unavailable
from core.domain.prompt import ModelRequest, PromptMessage, PromptTooLarge, Tier, Usage
from core.providers.model_settings import ModelSettings, Prices
from core.providers.models import connect
from core.providers.router import AT_ONCE, Attempt, Route, Router, ended
from tests.doubles.model_server import Fail, ModelServer, Say
from tests.fakes import ManualClock
from tests.flows.test_admission import Advancing

GOOD = Say(["All ", "good."])
DOWN = Fail(500)
TOO_LONG = Fail(400, {"error": {"code": "context_length_exceeded"}})


def words(text: str) -> int:
    return len(text.split())


@dataclass
class Builder:
    """Builds a prompt that says which window it was made for."""

    windows: list[int] = field(default_factory=list)
    too_large_below: int = 0

    def __call__(self, settings: ModelSettings) -> ModelRequest:
        self.windows.append(settings.window_tokens)
        if settings.window_tokens < self.too_large_below:
            raise PromptTooLarge("prompt: does not fit")
        text = f"{settings.name} {settings.window_tokens}"
        return ModelRequest("", (PromptMessage("user", text),), (), None, (), 100, sha256=text)


def model(server: ModelServer, name: str = "one", **more: object) -> ModelSettings:
    return ModelSettings.model_validate({"name": name, "base_url": server.url, **more})


@asynccontextmanager
async def router(
    tiers: dict[Tier, Sequence[ModelSettings]], clock: ManualClock | None = None, at_once: int = AT_ONCE
) -> AsyncIterator[Router]:
    clock = clock or ManualClock()
    joined = partial(connect, clock=clock, guard=lambda: None, estimate=words)
    made = Router(tiers, joined, clock, words, at_once)
    try:
        yield made
    finally:
        await made.aclose()


@asynccontextmanager
async def route(*models: ModelSettings, clock: ManualClock | None = None) -> AsyncIterator[Route]:
    async with router({Tier.FAST: models}, clock) as made:
        found = made.route(Tier.FAST)
        assert found is not None
        yield found


async def heard(route: Route, build: Builder, note: Callable[[Attempt], None]) -> str:
    return "".join([delta.text async for delta in route.stream(build, note=note)])


async def completed(route: Route, build: Builder, note: Callable[[Attempt], None]) -> str:
    return (await route.complete(build, note=note)).text


BOTH_WAYS = pytest.mark.parametrize("ask", [completed, heard])
Ask = Callable[[Route, Builder, Callable[[Attempt], None]], "asyncio.Future[str]"]


async def test_a_missing_tier_falls_to_the_next_lower() -> None:
    async with ModelServer(GOOD) as server:
        cheap, deep = model(server, "cheap"), model(server, "deep")
        async with router({Tier.CHEAP: [cheap], Tier.DEEP: [deep]}) as made:
            found = {tier: made.route(tier) for tier in Tier}
    assert {tier: each and each.models for tier, each in found.items()} == {
        Tier.DEEP: (deep,),
        Tier.FAST: (cheap,),
        Tier.CHEAP: (cheap,),
    }


async def test_a_lower_tier_never_borrows_a_dearer_one() -> None:
    async with ModelServer(GOOD) as server, router({Tier.DEEP: [model(server)], Tier.FAST: []}) as made:
        assert made.route(Tier.FAST) is None


async def test_without_a_model_there_is_no_route() -> None:
    async with router({}) as made:
        assert [made.route(tier) for tier in Tier] == [None, None, None]


async def test_too_small_a_window_stops_the_start() -> None:
    async with ModelServer(GOOD) as server:
        small = model(server, window_tokens=4_500, max_output_tokens=501)
        with pytest.raises(Misconfigured):
            async with router({Tier.FAST: [small]}):
                pass
        async with router({Tier.CHEAP: [small]}) as made:
            assert made.route(Tier.CHEAP) is not None


@BOTH_WAYS
@pytest.mark.parametrize("fault", [DOWN, Fail(429), Fail(408), replace(GOOD, cut_after=0)])
async def test_the_next_model_answers_when_the_first_is_down(ask: Ask, fault: Fail | Say) -> None:
    attempts: list[Attempt] = []
    async with ModelServer(fault) as bad, ModelServer(GOOD) as good:
        first, second = model(bad), model(good, "two", window_tokens=20_000)
        build = Builder()
        async with route(first, second) as found:
            assert await ask(found, build, attempts.append) == "All good."
    assert build.windows == [11_000, 20_000]
    assert [(each.model, each.sha256) for each in attempts] == [("one", "one 11000"), ("two", "two 20000")]
    assert [each.error is None for each in attempts] == [False, True]
    assert good.calls[0].body["messages"][0]["content"] == "two 20000"


@BOTH_WAYS
async def test_too_long_is_rebuilt_once_for_the_same_model(ask: Ask) -> None:
    async with ModelServer(TOO_LONG, GOOD) as server:
        build = Builder()
        async with route(model(server)) as found:
            assert await ask(found, build, lambda _: None) == "All good."
    assert build.windows == [11_000, 7_000]


@BOTH_WAYS
async def test_too_long_twice_ends_it_or_goes_to_the_next(ask: Ask) -> None:
    async with ModelServer(TOO_LONG) as server, ModelServer(GOOD) as good:
        async with route(model(server)) as found:
            with pytest.raises(TooLong):
                await ask(found, Builder(), lambda _: None)
        assert len(server.calls) == 2
        async with route(model(server), model(good, "two")) as found:
            assert await ask(found, Builder(), lambda _: None) == "All good."


@BOTH_WAYS
async def test_a_prompt_that_cannot_be_built_makes_no_call(ask: Ask) -> None:
    attempts: list[Attempt] = []
    async with ModelServer(GOOD) as small, ModelServer(GOOD) as large:
        tight, roomy = model(small), model(large, "two", window_tokens=30_000)
        async with route(tight, roomy) as found:
            assert await ask(found, Builder(too_large_below=20_000), attempts.append) == "All good."
    assert small.calls == []
    assert [each.model for each in attempts] == ["two"]


@BOTH_WAYS
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fail(400), Refused),
        (replace(GOOD, finish="content_filter"), Refused),
        (replace(GOOD, tool="rm"), BadOutput),
    ],
)
async def test_what_another_try_cannot_mend_is_not_tried(ask: Ask, fault: Fail | Say, error: type[Exception]) -> None:
    fault = fault if isinstance(fault, Fail) else replace(fault, pieces=[""])
    async with ModelServer(fault) as bad, ModelServer(GOOD) as good, route(model(bad), model(good, "two")) as found:
        with pytest.raises(error):
            await ask(found, Builder(), lambda _: None)
    assert good.calls == []


@BOTH_WAYS
async def test_a_refused_key_is_no_reason_to_be_silent_while_another_model_answers(ask: Ask) -> None:
    attempts: list[Attempt] = []
    async with ModelServer(Fail(401)) as bad, ModelServer(GOOD) as good, route(model(bad), model(good, "two")) as found:
        await ask(found, Builder(), attempts.append)
    assert [attempt.error for attempt in attempts] == ["Misconfigured", None]


@BOTH_WAYS
async def test_a_refused_key_alone_is_said_to_the_operator(ask: Ask) -> None:
    async with ModelServer(Fail(401)) as bad, route(model(bad)) as found:
        with pytest.raises(Misconfigured):
            await ask(found, Builder(), lambda _: None)


async def test_after_the_first_piece_no_other_model_is_tried() -> None:
    attempts: list[Attempt] = []
    pieces: list[str] = []
    async with (
        ModelServer(replace(GOOD, cut_after=1)) as bad,
        ModelServer(GOOD) as good,
        route(model(bad), model(good, "two")) as found,
    ):
        with pytest.raises(Unavailable):
            async for delta in found.stream(Builder(), note=attempts.append):
                pieces += [delta.text]
    assert pieces == ["All "]
    assert good.calls == []
    assert [(each.error, each.usage) for each in attempts] == [("Unavailable", Usage(2, 1, estimated=True))]


async def test_of_all_failures_the_one_worth_a_retry_is_raised() -> None:
    async with (
        ModelServer(Fail(429, {}, {"retry-after": "7"})) as busy,
        ModelServer(TOO_LONG) as small,
        route(model(busy), model(small, "two")) as found,
    ):
        with pytest.raises(Unavailable) as caught:
            await found.complete(Builder())
    assert caught.value.retry_after_s == 7


@BOTH_WAYS
async def test_a_call_costs_its_configured_price(ask: Ask) -> None:
    attempts: list[Attempt] = []
    prices = {"input_usd": "0.25", "output_usd": "1.5"}
    async with ModelServer(replace(GOOD, usage=(1_001, 3))) as server, route(model(server, prices=prices)) as found:
        await ask(found, Builder(), attempts.append)
    (attempt,) = attempts
    assert attempt.usage == Usage(1_001, 3)
    assert attempt.usd_micro == 255  # 250.25 + 4.5, rounded up


async def test_a_refused_answer_still_costs_what_was_billed() -> None:
    attempts: list[Attempt] = []
    prices = {"input_usd": "1", "output_usd": "2"}
    async with (
        ModelServer(replace(GOOD, finish="content_filter")) as server,
        route(model(server, prices=prices)) as found,
    ):
        with pytest.raises(Refused):
            await found.complete(Builder(), note=attempts.append)
    assert [(each.error, each.usage, each.usd_micro) for each in attempts] == [("Refused", Usage(12, 5), 22)]


async def test_a_call_given_up_by_us_is_counted() -> None:
    attempts: list[Attempt] = []
    async with (
        ModelServer(Say(["la "], endless=True)) as server,
        route(model(server)) as found,
        ended(found.stream(Builder(), note=attempts.append)) as deltas,
    ):
        await anext(deltas)
    (attempt,) = attempts
    assert attempt.error == "cancelled"
    assert attempt.usage == Usage(2, 1, estimated=True)


async def test_the_worst_case_is_every_model_of_the_list() -> None:
    prices = {"input_usd": "2", "output_usd": "10", "cache_write_usd": "3"}
    async with ModelServer(GOOD) as server:
        priced, free = model(server, prices=prices), model(server, "free")
        async with route(priced, free) as found:
            worst = found.worst
    assert worst.tokens == 2 * (6 * 10_000 + 1_000)
    assert worst.usd_micro == 60_000 * 3 + 1_000 * 10


async def test_no_call_costs_more_than_the_worst_case() -> None:
    prices = Prices.model_validate({"input_usd": "2", "output_usd": "10", "cached_usd": "0.2"})
    settings = ModelSettings(name="one", base_url="http://127.0.0.1", prices=prices)
    cap = settings.policy().hard_cap
    for cached in (0, 100, cap - 1_000):
        assert settings.usd_micro(Usage(cap - 1_000, 1_000, cached)) <= settings.worst_usd_micro()


async def test_five_failures_pause_an_endpoint_and_one_probe_opens_it() -> None:
    clock = Advancing()
    async with ModelServer(*[DOWN] * 6, GOOD) as server, route(model(server), clock=clock) as found:
        for _ in range(5):
            with pytest.raises(Unavailable):
                await found.complete(Builder())
        with pytest.raises(Unavailable) as paused:
            await found.complete(Builder())
        assert len(server.calls) == 5, "paused: not called"
        assert 0 < (paused.value.retry_after_s or 0) <= 30
        clock.move(31)
        with pytest.raises(Unavailable):
            await found.complete(Builder())
        assert len(server.calls) == 6, "one probe, and it failed"
        with pytest.raises(Unavailable):
            await found.complete(Builder())
        assert len(server.calls) == 6
        clock.move(31)
        assert (await found.complete(Builder())).text == "All good."
        assert (await found.complete(Builder())).text == "All good."


async def test_a_paused_endpoint_is_passed_over() -> None:
    async with ModelServer(DOWN) as bad, ModelServer(GOOD) as good, route(model(bad), model(good, "two")) as found:
        for _ in range(7):
            await found.complete(Builder())
    assert (len(bad.calls), len(good.calls)) == (5, 7)


async def test_models_behind_one_address_share_the_pause() -> None:
    async with ModelServer(DOWN) as server, route(model(server), model(server, "two")) as found:
        for _ in range(4):
            with pytest.raises(Unavailable):
                await found.complete(Builder())
    assert len(server.calls) == 5


async def test_an_answer_we_cannot_use_does_not_pause() -> None:
    async with ModelServer(replace(GOOD, tool="rm")) as server, route(model(server)) as found:
        for _ in range(7):
            with pytest.raises(BadOutput):
                await found.complete(Builder())
    assert len(server.calls) == 7


async def test_no_more_calls_run_at_once_than_allowed() -> None:
    async with (
        ModelServer(replace(GOOD, hold_after=1)) as server,
        router({Tier.FAST: [model(server)]}, at_once=2) as made,
    ):
        found = made.route(Tier.FAST)
        assert found is not None
        asked = [asyncio.ensure_future(heard(found, Builder(), lambda _: None)) for _ in range(5)]
        async with asyncio.timeout(20):
            while server.open_calls < 2:
                await asyncio.sleep(0.01)
        await asyncio.wait(asked, timeout=0.2)
        assert len(server.calls) == 2
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def test_half_an_answer_abandoned_frees_its_place() -> None:
    async with (
        ModelServer(Say(["la "], endless=True)) as server,
        router({Tier.FAST: [model(server)]}, at_once=1) as made,
    ):
        found = made.route(Tier.FAST)
        assert found is not None
        async with asyncio.timeout(20):
            for _ in range(3):
                async with ended(found.stream(Builder())) as deltas:
                    assert (await anext(deltas)).text == "la "
