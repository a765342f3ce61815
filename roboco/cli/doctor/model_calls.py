"""model_calls: real calls of each model profile of a team, from this process as an agents worker makes them.

    text ─► tool call ─► its result, in a second request ─► limit ─► interrupt
      └─► fails: the rest is not tried

Import this module lazily: it imports the packages that call models.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from roboco.cli.doctor.check import CheckResult
from roboco.domain.prompt.chat import ChatMessage
from roboco.domain.team.model_profile import OWN_PARAMETERS, ModelProfile
from roboco.domain.team.team import Team
from roboco.domain.usage import ModelUsage
from roboco.errors import ModelError, UsageError
from roboco.model.openai_model import OpenAIModel
from roboco.ports.model import Listener, Reply, Request
from roboco.process.credentials import Credentials
from roboco.settings import Settings
from roboco.team_files.prices import priced_profile

LIMIT_TOKENS: Final = 16
"""The output tokens of the reply with a limit: the fewest that every provider accepts."""
CLOSE_TIMEOUT: Final = 5.0
"""Seconds for the connection to close."""
_SYSTEM: Final = {"role": "system", "content": "You test a connection. Answer briefly."}
_TOOL: Final = {
    "type": "function",
    "function": {
        "name": "current_weather",
        "description": "Return the present weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
_COUNTING_PROMPT: Final = "Count from 1 to 300 in words, one number a line."


@dataclass(frozen=True)
class ProfileCheck:
    """The result of the calls of one profile."""

    profile: str
    """The name of the profile in the team."""
    model: str
    checks: tuple[CheckResult, ...]
    learned: tuple[str, ...]
    """The changes that this process makes to its requests since the server refused one."""
    settings: dict[str, Any]
    """The fields to write into the profile, so that no process has to learn them."""
    usage: dict[str, object]
    """The tokens of all calls."""
    cost: float | None
    """The cost of all calls, or None if the profile has no prices."""

    @property
    def works(self) -> bool:
        """Return True if no check fails."""
        return all(check.state != "fail" for check in self.checks)


def check_profiles(settings: Settings, team: Team, only: tuple[str, ...] = ()) -> Iterator[ProfileCheck]:
    """Call each profile of the team, or those with these names. Raise UsageError if there is no such profile.

    The operator's allowlist and the variables of this process apply.
    """
    profiles = team.models or {"default": team.profile(team.agents[0])}
    if unknown := [name for name in only if name not in profiles]:
        raise UsageError(f"--profile: no profile {unknown[0][:80]!r}, possible are {', '.join(profiles)}")
    model = OpenAIModel(settings.allowlist.model_servers, Credentials(settings.credentials))
    try:
        for name in only or profiles:
            yield _ProfileCalls(model, profiles[name], settings.tenant or "").run(name)
    finally:
        model.shut(CLOSE_TIMEOUT)


@dataclass
class _Failed(Exception):
    found: str
    todo: str = ""


@dataclass
class _ProfileCalls:
    model: OpenAIModel
    profile: ModelProfile
    tenant: str = ""
    used: ModelUsage = field(default_factory=ModelUsage)

    def run(self, name: str) -> ProfileCheck:
        """Make the calls."""
        checks = [self._checked("text", self._text)]
        if checks[0].state != "fail":
            steps = {"tool call": self._tool_call, "limit": self._limit, "interrupt": self._interrupt}
            checks += [self._checked(step, call) for step, call in steps.items()]
        lessons = self.model.learned(self.profile)
        cost = self.profile.cost(self.used) if self.profile.has_prices else None
        return ProfileCheck(
            name,
            self.profile.model,
            tuple(checks),
            tuple(lessons.notes),
            self._settings(checks),
            self.used.metadata(),
            cost,
        )

    def _checked(self, step: str, call: Callable[[], CheckResult]) -> CheckResult:
        try:
            return replace(call(), name=step)
        except ModelError as error:
            self.used = self.used.plus(ModelUsage(error.tokens_in, error.tokens_out))
            found, _, todo = error.message.partition("; ")
            return CheckResult(step, "fail", f"{error.code}: {found}", todo)
        except _Failed as failure:
            return CheckResult(step, "fail", failure.found, failure.todo)

    def _text(self) -> CheckResult:
        text, reply = self._reply(self._request("Reply with the word: ready"))
        if not text.strip():
            raise _Failed(f"no text, finish reason {reply.finish_reason!r} {reply.limit}".strip(), _hint_of(reply))
        thought = f", {reply.usage.reasoning} tokens of reasoning" if reply.usage.reasoning else ""
        usage = "; the server reports no usage, so tokens are estimated" if reply.usage.estimated else ""
        took = f"first token after {reply.first_token_ms} ms, {reply.duration_ms} ms in all"
        return CheckResult(
            "", "warn" if reply.usage.estimated else "ok", f"{text.strip()[:40]!r}, {took}{thought}{usage}"
        )

    def _tool_call(self) -> CheckResult:
        """Have the model call a tool, and send the result back with what the provider wants back."""
        asked = self._request("What is the weather in Paris? Call current_weather, then answer.", tools=(_TOOL,))
        _, reply = self._reply(asked)
        calls = [call for call in reply.calls if call.name == "current_weather"]
        if not calls or len(calls) < len(reply.calls):
            mistake = reply.mistake or f"it called {[call.name for call in reply.calls] or 'nothing'}"
            raise _Failed(f"no usable tool call: {mistake[:200]}", "write `tool_calls: json`, or use a larger model")
        try:
            arguments = [json.loads(call.arguments or "{}") for call in calls]
        except ValueError as error:
            raise _Failed(f"its arguments are no JSON: {error}", "write `tool_calls: json`") from error
        answered = replace(asked, messages=(*asked.messages, *_messages_of(reply)))
        text, _ = self._reply(answered)
        if not text.strip():
            raise _Failed("it called the tool, and said nothing after the result")
        kept = ", what the provider wants back was sent with the result" if reply.provider else ""
        return CheckResult("", "ok", f"called with {str(arguments[0])[:60]}, and answered{kept}")

    def _limit(self) -> CheckResult:
        _, reply = self._reply(replace(self._request(_COUNTING_PROMPT), max_tokens=LIMIT_TOKENS))
        used = f"{reply.tokens_out} tokens for a limit of {LIMIT_TOKENS}"
        if reply.limit:
            return CheckResult("", "warn", f"the server ignores the maximum, so this process ended the stream: {used}")
        if reply.finish_reason != "length":
            return CheckResult("", "warn", f"the reply ended by itself ({reply.finish_reason}), {used}")
        return CheckResult("", "ok", f"the server ended the reply, {used}")

    def _interrupt(self) -> CheckResult:
        """Close the stream after its first text or reasoning, as an interrupt of a task does."""
        reading = _Reading(self.model, self._request(_COUNTING_PROMPT))
        reading.heard.wait()
        whole, used, began = reading.ended, reading.stream.usage, time.monotonic()
        reading.stream.close()
        closed = reading.stream.wait_closed(CLOSE_TIMEOUT)
        took = 1000 * (time.monotonic() - began)
        if reading.failure is not None:
            raise reading.failure
        self.used = self.used.plus(used)
        if not closed:
            raise _Failed(f"the connection was not closed within {CLOSE_TIMEOUT:g} s")
        how = "the reply had ended before" if whole else "in the middle of the reply"
        return CheckResult("", "warn" if whole else "ok", f"the connection was closed after {took:.0f} ms, {how}")

    def _request(self, prompt: str, tools: tuple[dict[str, Any], ...] = ()) -> Request:
        return Request(self.profile, (_SYSTEM, {"role": "user", "content": prompt}), tools, tenant=self.tenant)

    def _reply(self, request: Request) -> tuple[str, Reply]:
        texts: list[str] = []
        stream = self.model.stream(request)
        try:
            for piece in stream:
                if isinstance(piece, Reply):
                    self.used = self.used.plus(piece.usage)
                    if piece.refusal:
                        raise _Failed(f"it refuses to answer: {piece.refusal[:200]}")
                    return "".join(texts), piece
                texts.append(piece)
        finally:
            stream.close()
        raise _Failed("the call ended without a reply")

    def _settings(self, checks: list[CheckResult]) -> dict[str, Any]:
        """Return the fields to write into the profile."""
        profile, lessons = self.profile, self.model.learned(self.profile)
        found: dict[str, Any] = {}
        if more := [name for name in lessons.omittable if name not in profile.omit]:
            found["omit"] = [*profile.omit, *more]
        if values := {name: value for name, value in lessons.values.items() if name not in OWN_PARAMETERS}:
            found["parameters"] = profile.parameters | values
        if lessons.max_output and (profile.max_tokens or 0) > lessons.max_output:
            found["max_tokens"] = lessons.max_output
        if any(check.name == "tool call" and "tool_calls: json" in check.todo for check in checks):
            found |= {"tool_calls": "json"} if profile.tool_calls == "native" else {}
        priced = checks[0].state != "fail" and self._has_listed_price()
        return found | ({"price": "auto"} if priced else {})

    def _has_listed_price(self) -> bool:
        if self.profile.has_prices or self.profile.price:
            return False
        try:
            return priced_profile(self.profile.model_copy(update={"price": "auto"})).has_prices
        except LookupError:
            return False


class _Reading:
    """A stream that a thread reads to its end or its close."""

    def __init__(self, model: OpenAIModel, request: Request) -> None:
        self.heard = threading.Event()
        """Set when the first text or reasoning has arrived, or the stream has ended."""
        self.ended = False
        self.failure: ModelError | None = None
        self.stream = model.stream(request, Listener(lambda _: self.heard.set(), lambda _: self.heard.set()))
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for _ in self.stream:
                pass
        except ModelError as error:
            self.failure = error
        self.ended = True
        self.heard.set()


def _messages_of(reply: Reply) -> Iterator[ChatMessage]:
    """Yield the reply as a message of a later request, and the results of its calls, as a turn sends them."""
    ids = [f"call_{index}" for index, _ in enumerate(reply.calls)]
    calls = [
        {"id": one, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}
        for one, call in zip(ids, reply.calls, strict=True)
    ]
    further = {"provider": reply.provider} if reply.provider else {}
    yield {"role": "assistant", "content": None, "tool_calls": calls, **further}
    for one in ids:
        yield {"role": "tool", "tool_call_id": one, "content": "18 degrees, sunny"}


def _hint_of(reply: Reply) -> str:
    if reply.finish_reason == "length":
        return "raise `max_tokens`, or lower the model's reasoning, such as `parameters: {reasoning_effort: low}`"
    return "use another model, or change its filter" if reply.finish_reason == "content_filter" else ""
