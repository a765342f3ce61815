"""reply: events of the library into a ReplyAssembly, and its exceptions into ServerFailure and OSError."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, NoAuthTokenError, NoCredentialsError
from botocore.parsers import ResponseParserError
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.usage import RequestUsage

from roboco.domain.usage import ModelUsage
from roboco.errors import ModelError
from roboco.model.errors import ServerFailure
from roboco.model.native.messages import state_of
from roboco.model.native.provider import sent_parameters
from roboco.model.reply_assembly import PartialCall, ReplyAssembly, token_count
from roboco.model.sse import UNREADABLE
from roboco.model.wire import Output
from roboco.ports.model import Request

_REASONS = {"tool_call": "tool_calls"}


class ReplyReader:
    """Reads one streamed response into an assembly."""

    def __init__(self, assembly: ReplyAssembly, output: Output) -> None:
        self._assembly = assembly
        self._output = output
        self._calls: dict[int, PartialCall] = {}

    async def read(self, stream: StreamedResponse) -> None:
        """Read the events until the response ends, or reaches a limit of the assembly."""
        self._calls.clear()
        try:
            async for event in stream:
                self._assembly.count_chunk()
                self._add(event)
                self._output.heard()
                if self._assembly.exceeded_limit:
                    await stream.cancel()
                    break
        finally:
            if usage := _usage(stream.usage):
                self._assembly.usage = usage if self._assembly.usage is None else self._assembly.usage.plus(usage)

    def finish(self, response: ModelResponse) -> None:
        """Note why the response has ended, and what its provider wants back.

        Raise ServerFailure if the provider has ended it with an error.
        """
        details = response.provider_details or {}
        named = details.get("finish_reason")
        if response.finish_reason == "error":
            raise ServerFailure.within_stream({"code": named, "message": f"the provider ended the reply: {named}"})
        for part in response.parts:
            if isinstance(part, ThinkingPart) and not part.content:
                self._think("".join((part.provider_details or {}).get("raw_content") or ()))
        self._assembly.set_model(response.model_name)
        if isinstance(refusal := details.get("refusal"), str):
            self._assembly.add_refusal(refusal)
        reason = response.finish_reason or named
        self._assembly.finish(_REASONS.get(reason, reason) if reason else None)
        self._assembly.provider = state_of(response)
        self._output.heard()

    def _add(self, event: ModelResponseStreamEvent) -> None:
        match event:
            case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                if said := self._assembly.add_text(text):
                    self._output.say(said)
            case PartStartEvent(part=ThinkingPart(content=text)):
                self._think(text)
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text)):
                self._think(text or "")
            case PartStartEvent(index=index, part=ToolCallPart() as part):
                if (call := self._assembly.begin_call(part.tool_name, part.tool_call_id)) is not None:
                    self._calls[index] = call
                    self._add_arguments(call, part.args)
            case PartDeltaEvent(index=index, delta=ToolCallPartDelta() as delta) if index in self._calls:
                self._calls[index].name += delta.tool_name_delta or ""
                self._add_arguments(self._calls[index], delta.args_delta)
            case _:  # the provider's own tools, files, and what repeats the above
                pass

    def _think(self, text: str) -> None:
        if thought := self._assembly.add_reasoning(text):
            self._output.think(thought)

    def _add_arguments(self, call: PartialCall, arguments: "str | dict[str, object] | None") -> None:
        if arguments not in (None, ""):
            text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            self._assembly.add_arguments(call, text)


def _usage(used: RequestUsage) -> ModelUsage | None:
    """Return the usage, or None if the provider has not reported any. Input includes what was cached."""
    if not (used.input_tokens or used.output_tokens):
        return None
    reasoning = used.output_reasoning_tokens or used.details.get("reasoning_tokens", 0)
    return ModelUsage(
        token_count(used.input_tokens),
        token_count(used.output_tokens),
        token_count(used.cache_read_tokens),
        token_count(used.cache_write_tokens),
        token_count(reasoning),
    )


def _body(error: ModelAPIError) -> object:
    """Return the body of the provider's refusal. boto3 has its own names for the parts of one."""
    body = error.body
    if isinstance(body, dict) and isinstance(amazon := body.get("Error"), dict):
        return {"code": amazon.get("Code"), "message": amazon.get("Message")}
    return body or str(error)


@contextmanager
def failures_of(request: Request, assembly: ReplyAssembly) -> Iterator[None]:
    """Raise the library's exceptions as those of a wire."""
    model = request.profile.model
    try:
        yield
    except ModelConnectionError as error:
        raise ConnectionError(str(error)) from error
    except ModelAPIError as error:
        status = error.status_code if isinstance(error, ModelHTTPError) else 0
        sent = {} if assembly.has_chunks else sent_parameters(request)
        raise ServerFailure(status, _body(error), error.retry_after, sent) from error
    except UnexpectedModelBehavior as error:
        raise ServerFailure.within_stream(str(error)) from error
    except (NoCredentialsError, NoAuthTokenError) as error:
        raise ModelError(
            "no_key", f"model {model!r}: the agents worker has no credentials of AWS: {error}", False
        ) from error
    except (UserError, BotoCoreError) as error:
        raise ModelError("setting", f"model {model!r} cannot be called in this way: {error}", False) from error
    except (AssertionError, AttributeError, LookupError, ResponseParserError, TypeError, ValueError) as error:
        raise ModelError(UNREADABLE, f"the provider's package fails with {error!r}", False) from error
