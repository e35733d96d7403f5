"""THE pydantic-ai module: models behind OpenAI-compatible addresses and Anthropic, as `ModelProvider`.

The library and its SDKs are imported inside functions, so that a process without a configured model
never loads them; only the SDK of a configured kind is loaded.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, assert_never
from urllib.parse import urlsplit

from core.domain.errors import BadOutput, BotError, Misconfigured, Refused, TimedOut, TooLong, Unavailable
from core.domain.prompt import Completion, Delta, Finish, ModelRequest, PromptMessage, Usage
from core.ports import Clock, ModelProvider
from core.providers.metering import Estimate, estimated
from core.providers.model_settings import Limits, ModelSettings, ProviderKind

CONNECT_S = 5.0
READ_S = 600.0
"""Longer than any limit of ours: it only frees the sockets of calls whose own limit did not fire."""

CHARS_PER_TOKEN = 16
"""An answer longer than this per allowed output token is cut; a token of English has about 4.5."""

ANTHROPIC_URL = "https://api.anthropic.com"

# Reasoning in the text itself is for `chat/guards.py` to strip, which knows code and quotes; the library
# would cut at its own pair of tags. Nothing a model says contains these.
NO_TAGS = ("\0no reasoning tag\0", "\0no reasoning tag end\0")

BELIEVED_TOKENS = 100_000_000  # No call is so large; a count that is would spend every purse of the day.
TOO_LONG = ("context size", "context length", "context window", "too many tokens")
FILTERED = ("content filter", "content policy", "responsible ai")

Guard = Callable[[], None]


class ConnectedModel(ModelProvider, Protocol):
    """A provider that holds connections. Its errors carry `usage` where the call was or may be billed."""

    async def aclose(self) -> None:
        """Close the connections."""
        ...


def connect(
    settings: ModelSettings, limits: Limits, *, clock: Clock, guard: Guard, estimate: Estimate
) -> ConnectedModel:
    """Return the provider for `settings`; imports the SDK it needs and opens nothing yet.

    Args:
        settings: The model and its address.
        limits: Already chosen for the tier; stretched here by the model's patience.
        clock: Measures what is left of the total.
        guard: Called before each outside call; raises while a transaction is open.
        estimate: Tokens of a text, used where the provider reports no usage.
    """
    match settings.kind:
        case ProviderKind.OPENAI:
            model, close = _openai(settings)
        case ProviderKind.ANTHROPIC:
            model, close = _anthropic(settings)
        case _:
            assert_never(settings.kind)
    return SdkModel(settings, limits.stretched(settings.patience), model, close, clock, guard, estimate)


Close = Callable[[], Any]


def _connection(base_url: str) -> dict[str, Any]:
    """Return how a client connects; a redirect could carry the key to another host, so none is followed."""
    parts = urlsplit(base_url)
    return {
        "follow_redirects": False,
        # The proxies of the environment apply, but never for this machine itself.
        "trust_env": parts.hostname not in ("127.0.0.1", "localhost", "::1"),
        # Where nothing is encrypted nobody need be believed, and to read all authorities takes long.
        "verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if parts.scheme == "http" else True,
    }


def _openai(settings: ModelSettings) -> tuple[Any, Close]:
    """Return the library's chat model for an OpenAI-compatible address, and what closes it."""
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    base_url = settings.base_url or ""
    http = DefaultAsyncHttpxClient(timeout=Timeout(READ_S, connect=CONNECT_S), **_connection(base_url))
    client = AsyncOpenAI(
        api_key=settings.api_key.get_secret_value() if settings.api_key else "none",
        base_url=base_url,
        max_retries=0,
        http_client=http,
    )
    profile = OpenAIModelProfile(
        thinking_tags=NO_TAGS,
        ignore_streamed_leading_whitespace=False,
        json_schema_transformer=None,
        supports_json_schema_output=settings.structured,
        openai_supports_strict_tool_definition=False,
        openai_chat_supports_max_completion_tokens=settings.long_limit_name,
        # Without it a stream that breaks off at a chunk's end would pass for a finished answer.
        openai_chat_streaming_requires_finish_reason=True,
    )
    provider = OpenAICompatibleProvider("openai-compatible", openai_client=client)
    return OpenAIChatModel(settings.name, provider=provider, profile=profile), http.aclose


def _anthropic(settings: ModelSettings) -> tuple[Any, Close]:
    """Return the library's model for Anthropic, and what closes it."""
    from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient, Timeout
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.profiles import ModelProfile
    from pydantic_ai.providers.anthropic import AnthropicProvider

    base_url = settings.base_url or ANTHROPIC_URL
    http = DefaultAsyncHttpxClient(timeout=Timeout(READ_S, connect=CONNECT_S), **_connection(base_url))
    client = AsyncAnthropic(
        api_key=settings.api_key.get_secret_value() if settings.api_key else "none",
        base_url=base_url,
        max_retries=0,
        http_client=http,
    )
    profile = ModelProfile(supports_json_schema_output=settings.structured)
    provider = AnthropicProvider(anthropic_client=client)
    return AnthropicModel(settings.name, provider=provider, profile=profile), http.aclose


@dataclass(slots=True)
class _Heard:
    """What has arrived of one answer."""

    limit: int
    unseen: int = 0  # output tokens that may exist though nothing of them can arrive before the end
    text: str = ""
    reasoning: bool = False
    tool: bool = False

    def take(self, piece: str) -> str:
        """Keep a piece of text; return what of it is within the limit."""
        fitting = piece[: max(0, self.limit - len(self.text))]
        self.text += fitting
        return fitting

    @property
    def full(self) -> bool:
        return len(self.text) >= self.limit


class SdkModel:
    """One model through the library; the limits stand around every wait, and the errors are ours."""

    def __init__(
        self,
        settings: ModelSettings,
        limits: Limits,
        model: Any,  # a model of the library, which is imported only where one is configured
        close: Close,
        clock: Clock,
        guard: Guard,
        estimate: Estimate,
    ) -> None:
        self._settings = settings
        self._limits = limits
        self._sdk = model
        self._close = close
        self._clock = clock
        self._guard = guard
        self._estimate = estimate

    @property
    def model(self) -> str:
        """The configured name; what the endpoint calls itself is not shown."""
        return self._settings.name

    async def aclose(self) -> None:
        """Close the connections."""
        await self._close()

    async def complete(self, request: ModelRequest) -> Completion:
        """Return the whole answer, within the total limit."""
        from pydantic_ai.direct import model_request

        self._guard()
        heard = _Heard(CHARS_PER_TOKEN * request.max_output_tokens, unseen=request.max_output_tokens)
        with self._errors(request, heard):
            async with asyncio.timeout(self._limits.total_s):
                answer = await model_request(self._sdk, instrument=False, **self._arguments(request))
        for part in answer.parts:
            heard.take(_note(part, heard))
        return self._completion(request, heard, answer)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Yield the answer in pieces. Close the iterator when leaving early: that ends the call."""
        from pydantic_ai.direct import model_request_stream

        self._guard()
        heard = _Heard(CHARS_PER_TOKEN * request.max_output_tokens)
        begun = self._clock.monotonic()
        async with AsyncExitStack() as stack:
            with self._errors(request, heard):
                async with asyncio.timeout(min(self._limits.first_s, self._limits.total_s)):
                    opened = model_request_stream(self._sdk, instrument=False, **self._arguments(request))
                    answer = await stack.enter_async_context(opened)
                    events = aiter(answer)
                    event = await anext(events, None)
            while event is not None and not heard.full:
                piece = heard.take(_note(event, heard))
                if piece:
                    yield Delta(piece)
                left = self._limits.total_s - (self._clock.monotonic() - begun)
                with self._errors(request, heard):
                    async with asyncio.timeout(min(self._limits.between_s, left)):
                        event = await anext(events, None)
            finished = answer.get()
        yield Delta(completion=self._completion(request, heard, finished))

    def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        """Return the request in the library's words."""
        from pydantic_ai.messages import InstructionPart
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.output import OutputObjectDefinition
        from pydantic_ai.settings import ModelSettings as SdkSettings
        from pydantic_ai.tools import ToolDefinition

        if request.images and not self._settings.vision:
            raise AssertionError("a model that reads no images is given some")
        anthropic = self._settings.kind is ProviderKind.ANTHROPIC
        # Only Anthropic takes marks in the system part; elsewhere one part is one system message.
        systems = _split(request.system, request.cache_breakpoints if anthropic else ())
        marked = len(systems) > 1 or bool(request.cache_breakpoints)
        schema = request.output_schema if self._settings.structured else None
        settings = SdkSettings(max_tokens=request.max_output_tokens)
        if self._settings.temperature is not None:
            settings["temperature"] = self._settings.temperature
        parameters = ModelRequestParameters(
            function_tools=[
                ToolDefinition(
                    name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters)
                )
                for tool in request.tools
            ],
            output_mode="text" if schema is None else "native",
            output_object=None if schema is None else OutputObjectDefinition(dict(schema), name="answer"),
            allow_text_output=True,
            instruction_parts=[InstructionPart(content=text, dynamic=n > 0) for n, text in enumerate(systems) if text],
        )
        cached = {"anthropic_cache_instructions": True} if anthropic and marked else {}
        return {
            "messages": _messages(request),
            "model_settings": {**settings, **cached},
            "model_request_parameters": parameters,
        }

    def _completion(self, request: ModelRequest, heard: _Heard, answer: Any) -> Completion:
        """Return the finished answer, or raise what it is instead of one."""
        usage, written = self._usage(request, heard, answer.usage)
        if heard.tool:
            raise BadOutput("model: answered with a tool call", model=self.model, usage=usage)
        if answer.finish_reason == "content_filter":
            raise Refused("model: answer withheld by the provider's filter", model=self.model, usage=usage)
        if heard.full:
            finish = Finish.LENGTH
        elif answer.state != "complete" or answer.finish_reason is None:
            raise Unavailable("model: answer broke off", model=self.model, usage=usage)
        else:
            finish = {"stop": Finish.STOP, "length": Finish.LENGTH}.get(answer.finish_reason, Finish.OTHER)
        return Completion(
            text=heard.text,
            usage=usage,
            model=self.model,
            finish=finish,
            usd_micro=self._settings.usd_micro(usage, written),
            reasoning_dropped=heard.reasoning,
        )

    def _usage(self, request: ModelRequest, heard: _Heard, reported: Any) -> tuple[Usage, int]:
        """Return the usage and how many input tokens were written to the provider's cache."""
        if not 0 < reported.input_tokens + reported.output_tokens <= BELIEVED_TOKENS:
            return estimated(request, heard.text, self._estimate), 0
        usage = Usage(reported.input_tokens, reported.output_tokens, reported.cache_read_tokens)
        return usage, reported.cache_write_tokens

    @contextmanager
    def _errors(self, request: ModelRequest, heard: _Heard) -> Iterator[None]:
        """Map the errors of one wait, and say what the call may have cost where that is not known to be 0."""
        try:
            with sdk_errors(self.model):
                yield
        except Unavailable as exc:
            if isinstance(exc, TimedOut) or heard.text or exc.attributes.get("sent"):
                exc.attributes["usage"] = estimated(request, heard.text, self._estimate, heard.unseen)
            raise


def _split(system: str, breakpoints: Sequence[int]) -> list[str]:
    """Return `system` cut at the last breakpoint inside it; the front is what stays the same longest."""
    inside = [at for at in breakpoints if 0 < at < len(system)]
    return [system[: inside[-1]], system[inside[-1] :]] if inside else [system]


def _messages(request: ModelRequest) -> list[Any]:
    """Return the talk in the library's words."""
    from pydantic_ai import messages as sdk

    def content(each: PromptMessage) -> Any:
        images = [sdk.BinaryContent(image.data, media_type=image.mime) for image in each.images]
        return [*images, each.text] if images else each.text

    return [
        sdk.ModelRequest(parts=[sdk.UserPromptPart(content=content(each))])
        if each.role == "user"
        else sdk.ModelResponse(parts=[sdk.TextPart(content=each.text)])
        for each in request.messages
    ]


def _note(event: object, heard: _Heard) -> str:
    """Return the text of a part or of a stream's event; only mark that reasoning or a tool call came."""
    from pydantic_ai import messages as sdk

    match event:
        case sdk.PartStartEvent(part=part):
            return _note(part, heard)
        case sdk.PartDeltaEvent(delta=delta):
            return _note(delta, heard)
        case sdk.TextPart(content=text) | sdk.TextPartDelta(content_delta=text):
            return text
        case sdk.ThinkingPart() | sdk.ThinkingPartDelta():
            heard.reasoning = True
        case sdk.ToolCallPart() | sdk.ToolCallPartDelta():
            heard.tool = True
    return ""


@contextmanager
def sdk_errors(model: str) -> Iterator[None]:
    """Turn errors of the library and our own limits into ours; what the provider said stays in the cause."""
    import httpx2
    from pydantic_ai import exceptions as sdk

    try:
        yield
    except BotError:
        raise
    except TimeoutError as exc:
        raise TimedOut("model: no answer in time", model=model) from exc
    except sdk.ModelAPIError as exc:
        raise _ours(exc, model) from exc
    except httpx2.TransportError as exc:
        raise Unavailable("model: connection broke", model=model, sent=True) from exc
    except sdk.ContentFilterError as exc:
        raise Refused("model: request withheld by the provider's filter", model=model) from exc
    except sdk.UserError as exc:
        raise Misconfigured("model: settings not usable with this provider", model=model) from exc
    except (sdk.UnexpectedModelBehavior, ValueError, LookupError, TypeError, AttributeError) as exc:
        # The library reads some answers without checking their shape first.
        raise BadOutput("model: answer not readable", model=model) from exc


def _ours(exc: Any, model: str) -> BotError:
    """Return our error for one of the provider's; the order goes from the special to the general."""
    from pydantic_ai import exceptions as sdk

    status = getattr(exc, "status_code", None)
    said = f"{exc.provider_error_code} {exc.provider_error_type} {exc.body}".lower().replace("_", " ")
    match exc:
        case sdk.ModelAuthenticationError():
            return Misconfigured("model: key refused", model=model, status=status)
        case sdk.ModelNotFoundError():
            return Misconfigured("model: not known at this address", model=model, status=status)
        case sdk.ModelContextWindowExceededError():
            return TooLong("model: prompt too long", model=model)
        case sdk.ModelRateLimitError():
            return Unavailable("model: rate limited", exc.retry_after, model=model)
        case sdk.ModelQuotaExceededError():
            return Unavailable("model: account has no credit left", exc.retry_after, model=model)
        case sdk.ModelConnectionError(phase="pool" | "connect"):
            return Unavailable("model: not reachable", model=model)
        case sdk.ModelTimeoutError() | sdk.ModelRequestTimeout():
            return TimedOut("model: no answer in time", model=model)
        case sdk.ModelConnectionError():
            return Unavailable("model: connection broke", model=model, sent=True)
        case _ if status == 408:
            return TimedOut("model: no answer in time", model=model)
        case _ if status in (400, 413, 422) and any(word in said for word in FILTERED):
            return Refused("model: request withheld by the provider's filter", model=model, status=status)
        case _ if status == 413 or (status in (400, 422, 500) and any(word in said for word in TOO_LONG)):
            return TooLong("model: prompt too long", model=model)
        case _ if status is not None and status < 500:
            return Refused("model: request refused", model=model, status=status)
        case _ if isinstance(exc.__cause__, ValueError):
            return BadOutput("model: answer not readable", model=model)
    return Unavailable("model: provider failed", exc.retry_after, model=model, status=status)
