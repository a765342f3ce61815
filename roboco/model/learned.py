"""learned: what this process has learned of a server and model from refusals, so that it asks for nothing twice.

    400 or 422, body ─► what does it name? ─► a change of requests ─► the same request again ─► logged once
                              └─► nothing known: the refusal is an error

A refusal costs nothing, so each one may teach one thing, and MAX_LESSONS of them are learned in one call. Only what
Roboco or the profile adds to a request is ever left out or renamed: never messages, tools or the model.

All tenants share the lessons, but each writes the schemas of its answers and tools. A refusal that may be about the
content of such a schema changes that request alone.
"""

import json
import logging
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.url import without_query
from roboco.model.allowlist import DEFAULT_BASE_URL, base_url_of
from roboco.model.errors import CONTEXT_LENGTH, ServerFailure, model_error, redact_secrets
from roboco.ports.model import Request

_log = logging.getLogger(__name__)

Sent = TypeVar("Sent")
MAX_LESSONS = 6
"""The most lessons of one call."""
MAX_LEARNED_MODELS = 1000
"""Models whose lessons this process keeps; those that were not used for the longest time are forgotten."""
TEACHING_STATUSES = frozenset({400, 404, 422, 500})
"""Servers in Python, and chat templates, fail with 500 at a parameter or role that they do not know."""
_TEACHING_CODES = frozenset({"status", CONTEXT_LENGTH, "not_found", "content_filter"})
"""Kinds of failures that may be about the form of the request, and not about its model, key or account."""
_NEW_LIMIT_MODELS = ("o1", "o3", "o4", "gpt-5")
"""Beginnings of the names of models that refuse `max_tokens` (platform.openai.com/docs/api-reference/chat)."""
_FIXED = frozenset({"model", "messages", "tools", "stream"})
_UNSUPPORTED = (
    r"unsupported|not support|n't support|unknown|unrecogni[sz]ed|not permitted|forbidden|not allowed|unexpected|extra"
    r"|cannot find field|not available|no longer|deprecated|not accept"
    r"|invalid (?:parameter|argument|field|\w+ argument)|not recogni[sz]ed|is allowed for|unavailable|restricted to"
    r"|not valid|removed|only the default|must be (?:unset|omitted|auto|one of)|not (?:be )?enabled"
    r"|may only be|cannot both|mutually exclusive|only supports|cannot be used|incompatible"
)
_REFUSED = re.compile(f"{_UNSUPPORTED}|grammar|schema|structured", re.IGNORECASE)
_FORMAT_UNSUPPORTED = re.compile(f"{_UNSUPPORTED}|must be|should be|enabled only|only for", re.IGNORECASE)
_FORMAT = re.compile(
    r"response[_ ]?(?:format|mime[_ ]?type)|json_schema|structured[_ ]output|\bstrict\b", re.IGNORECASE
)
_FORMAT_TYPE = re.compile(r"json_schema(?!\W+(?:schema|value)\b)|(?:format|type) ['\"`]?json schema", re.IGNORECASE)
"""The type of a response format, which is not the schema in it."""
_OF_SCHEMA = re.compile(
    r"schema|grammar|context=|additionalProperties|\$ref|(?:property|properties|keyword|key|field)s? ['\"`](?!response)"
    r"|required|too (?:large|long|deep|many|complex)|exceed|nest|recurs|depth|at most|maximum|\blimit",
    re.IGNORECASE,
)
"""Words of refusals of a schema for its content."""
_INSTEAD = re.compile(
    r"use\s+(?:the\s+)?['\"`]?(\w{3,64})['\"`]?\s+(?:parameter\s+)?instead|did you mean\s+['\"`](\w{3,64})", re.I
)
_SET_TO = re.compile(r"\bset ['\"`]?(\w{3,64})['\"`]? to ['\"`](\w{1,40})['\"`]", re.IGNORECASE)
_USER_AFTER_TOOL = re.compile(r"unexpected role ['\"`]?user['\"`]? after role ['\"`]?tool", re.IGNORECASE)
_REASONING_WANTED = re.compile(
    r"reasoning_content.{0,80}must be passed back|missing .{0,3}reasoning_content", re.IGNORECASE
)
_ALTERNATION = re.compile(
    r"(?:must|should) alternate|(?:successive|consecutive) (?:user|assistant|message)", re.IGNORECASE
)
_EMPTY_MESSAGE = re.compile(
    r"(?:content|text|message)s?\b.{0,80} (?:non-empty|non-whitespace|not be (?:empty|blank)|is empty|cannot be empty)"
    r"|non-empty content|either content or tool_calls",
    re.IGNORECASE,
)
_TOOL_SCHEMA = re.compile(
    r"(?:tool|function)s?(?!_c)[\w\].'\" -]{0,60}(?:parameters|input_schema|schema)|function_?declarations?\b"
    r"|(?:schema|parameters) (?:for|of) (?:the )?(?:function|tool)",
    re.IGNORECASE,
)
_OTHER = re.compile(r"response[_ ]?(?:format|schema|mime)|json_schema|parallel_tool_calls", re.IGNORECASE)
"""Names of what a server may refuse beside tools, whose schemas it takes."""
_ANY_SCHEMA = re.compile(
    r"unrecognized schema|schema conversion failed|failed to parse grammar|grammar error"
    r"|json schema (?:fields|contains)",
    re.IGNORECASE,
)
"""Words of refusals of a schema that do not say whether it is one of a tool."""
_CALL_ID = re.compile(
    r"tool[_ ]call[_ ]id.{0,80}(?:length|a-z|characters|pattern)|length of 9", re.IGNORECASE | re.DOTALL
)
MessageForm = Literal["short_call_ids", "answers_tools", "all_reasoning", "alternates", "fills_messages"]
_FORMS: tuple[tuple[MessageForm, re.Pattern[str], str], ...] = (
    ("short_call_ids", _CALL_ID, "sends ids of calls with nine letters and digits"),
    (
        "answers_tools",
        _USER_AFTER_TOOL,
        "sends a message of the model between results of tools and a message of the user",
    ),
    ("all_reasoning", _REASONING_WANTED, "sends the reasoning of all earlier replies back"),
    ("alternates", _ALTERNATION, "joins neighbouring messages of one role"),
    ("fills_messages", _EMPTY_MESSAGE, "sends no empty message"),
)
"""Forms of messages, with the words of the refusal and the lesson."""
_NO_STREAM = re.compile(
    r"['\"`]stream['\"`] does not support|verified to stream"
    r"|does not support stream(?:ing)?\b(?![ _]options)|streaming is not supported",
    re.IGNORECASE,
)
_TOO_MANY = re.compile(r"max(?:imum)?[_ ]?(?:(?:completion|output|new)[_ ]?)?tokens", re.IGNORECASE)
_TOO_LARGE = re.compile(
    r"too large|at most|less than or equal|maximum|exceed|range|greater than|higher|lower than|> \d|must be|范围",
    re.IGNORECASE,
)
_OF_CONTEXT = re.compile(r"context length", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])\d{2,9}(?![\w.]*\w)")
_LIMIT_NAMES = ("max_tokens", "max_completion_tokens")
_NO_SYSTEM = re.compile(
    r"(?:system|developer)['\"`]?(?: role)? (?:is )?not supported|does not support ['\"`]?(?:system|developer)"
    r"|developer instruction is not enabled",
    re.I,
)
_MESSAGE_FIELDS = ("reasoning_content", "reasoning_details", "reasoning", "thinking", "extra_content")


@dataclass
class Lessons:
    """The rules of a server for one model, learned from its refusals."""

    omitted: set[str] = field(default_factory=set)
    """Parameters that are left out."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Parameters that are sent under another name."""
    message_fields: set[str] = field(default_factory=set)
    """Fields of earlier replies that are not sent back."""
    max_output: int | None = None
    """The most output tokens that a request may ask for."""
    forms: set[MessageForm] = field(default_factory=set)
    """Forms of messages that the server demands."""
    values: dict[str, str] = field(default_factory=dict)
    """Parameters that must have a value that the server has named."""
    system_as_user: bool = False
    """True if the server accepts no system message."""
    plain_tools: bool = False
    """True if the schemas of tools have nothing but names, descriptions and types."""
    notes: list[str] = field(default_factory=list)
    """The lessons, each as the end of a sentence that begins with "this process"."""

    def learn(self, failure: ServerFailure, body: Mapping[str, Any]) -> str:
        """Learn from the refusal of this request. Return what, for the log, or "" if it teaches nothing new."""
        if failure.status not in TEACHING_STATUSES:
            return ""
        text = _words_of(failure)
        of_prompt = _of_prompt(failure) or (_TOOL_SCHEMA.search(text) is not None and not _OTHER.search(text))
        about = {name: value for name, value in body.items() if not of_prompt or name in _FIXED}
        lesson = (
            self._learn_name(text, about)
            or self._learn_value(text, body)
            or self._learn_maximum(text, about)
            or self._learn_messages(text, body)
            or self._learn_omission(text, about, failure.status != 500)
            or self._learn_stream(text, body)
            or self._learn_tools(text, body)
        )
        self.notes += [lesson] if lesson else []
        return lesson

    def sent_name(self, name: str) -> str:
        """Return the name under which a parameter is sent, or "" if it is left out."""
        name = self.renamed.get(name, name)
        return "" if name in self.omitted else name

    @property
    def omittable(self) -> list[str]:
        """The names for `omit` of a profile, so that no process has to learn them."""
        return sorted(self.omitted | self.message_fields)

    def _learn_stream(self, text: str, body: Mapping[str, Any]) -> str:
        if not body.get("stream") or not _NO_STREAM.search(text):
            return ""
        self.omitted |= {"stream", "stream_options"}
        return "asks for replies in one piece"

    def _learn_name(self, text: str, body: Mapping[str, Any]) -> str:
        suggestion = _INSTEAD.search(text)
        if suggestion is None:
            return ""
        new = suggestion[1] or suggestion[2]
        for name in _named(text[: suggestion.start()], body):
            if new not in body and new != name and new not in _FIXED and new not in self.omitted:
                self.renamed = {key: new if value == name else value for key, value in self.renamed.items()} | {
                    name: new
                }
                return f"sends {new!r} in place of {name!r}"
        return ""

    def _learn_value(self, text: str, body: Mapping[str, Any]) -> str:
        found = _SET_TO.search(text)
        if found is None or found[1] in _FIXED.union(_LIMIT_NAMES) or body.get(found[1]) == found[2]:
            return ""
        self.values[found[1]] = found[2]
        return f"sends {found[1]!r} as {found[2]!r}"

    def _learn_maximum(self, text: str, body: Mapping[str, Any]) -> str:
        sent = next((body[name] for name in _LIMIT_NAMES if isinstance(body.get(name), int)), None)
        if sent is not None and re.search(rf"\b{sent} (?:\w+ ){{0,3}}(?:completion|output)", text):
            return self._omit_limit(body)
        if sent is None or not _TOO_MANY.search(text) or not _TOO_LARGE.search(text):
            return ""
        if _OF_CONTEXT.search(text):  # prompt and reply together: how much is left differs from request to request
            return self._omit_limit(body)
        smaller = [number for number in map(int, _NUMBER.findall(text)) if 16 <= number < sent]
        if not smaller:
            return ""
        largest = max(smaller)
        self.max_output = largest - (f"{largest} (exclusive)" in text)
        return f"asks for at most {self.max_output} output tokens"

    def _omit_limit(self, body: Mapping[str, Any]) -> str:
        self.omitted |= {name for name in _LIMIT_NAMES if name in body}
        return "asks for no maximum of output tokens, which exceeds the context with the prompt,"

    def _learn_messages(self, text: str, body: Mapping[str, Any]) -> str:
        for form, words, lesson in _FORMS:
            if form not in self.forms and words.search(text):
                self.forms.add(form)
                return lesson
        roles = {message.get("role") for message in body.get("messages", ())}
        if not self.system_as_user and "system" in roles and _NO_SYSTEM.search(text):
            self.system_as_user = True
            return "sends the agent's prompt as a message of the user"
        if not _REFUSED.search(text):
            return ""
        for name in _MESSAGE_FIELDS:
            sent = any(name in message for message in body.get("messages", ()))
            if sent and name not in self.message_fields and _mentions(text, name):
                self.message_fields.add(name)
                return f"sends no {name!r} of earlier replies"
        return ""

    def _learn_omission(self, text: str, body: Mapping[str, Any], is_sure: bool) -> str:
        of_format = "response_format" in body and re.search(
            r"response_format|mime.?type|schema|grammar|structured", text, re.I
        )
        if not ((of_format and is_sure) or _REFUSED.search(text)):
            return ""
        for name in _named(text, body):
            if name == "max_tokens" and "max_completion_tokens" not in self.omitted:
                self.renamed["max_tokens"] = "max_completion_tokens"
                return "sends 'max_completion_tokens' in place of 'max_tokens'"
            self.omitted.add(name)
            return f"sends no {name!r}"
        if "strict" not in self.omitted and _has_strict(body) and _mentions(text, "strict"):
            self.omitted.add("strict")
            return "sends no 'strict'"
        if of_format:
            self.omitted.add("response_format")
            return "sends no 'response_format'"
        return ""

    def _learn_tools(self, text: str, body: Mapping[str, Any]) -> str:
        refused = _TOOL_SCHEMA.search(text) or _ANY_SCHEMA.search(text)
        if self.plain_tools or not body.get("tools") or refused is None:
            return ""
        self.plain_tools = True
        return "sends the schemas of tools with nothing but names, descriptions and types"


class Learner:
    """Sends requests, and repeats those that are refused without what their server refuses."""

    def __init__(self) -> None:
        self._lessons: OrderedDict[tuple[str, str, str], Lessons] = OrderedDict()

    def lessons_of(self, profile: ModelProfile) -> Lessons:
        """Return what this process knows of the profile's server and model."""
        server = _server_of(profile)
        lessons = self._lessons.pop(server, None) or _first_lessons(profile)
        self._lessons[server] = lessons
        if len(self._lessons) > MAX_LEARNED_MODELS:
            self._lessons.popitem(last=False)
        return lessons

    async def accepted(self, request: Request, send: Callable[[Lessons], Awaitable[Sent]]) -> Sent:
        """Return what `send` returns for a request that is accepted. What it took to get there is kept only then."""
        lessons = shared = self.lessons_of(request.profile)
        learned: list[tuple[str, str]] = []
        for left in range(MAX_LESSONS, -1, -1):
            try:
                sent = await send(lessons)
            except ServerFailure as failure:
                before, lessons = lessons, deepcopy(lessons)
                teaches = left and failure.sent and model_error(failure, request).code in _TEACHING_CODES
                lesson = lessons.learn(failure, failure.sent) if teaches else ""
                if not lesson:
                    raise
                words = redact_secrets(failure.text, request)[:300]
                # Whether a key may stream is no property of the server.
                alone = lessons.plain_tools != before.plain_tools or "stream" in lessons.omitted - before.omitted
                if alone or _is_of_schema(failure, failure.sent, lessons.omitted - before.omitted):
                    _log.info("for this request this process %s: %s", lesson, words)
                    continue
                shared = deepcopy(shared)
                shared.learn(failure, failure.sent)
                learned.append((lesson, words))
            else:
                if learned:
                    self._remember(request.profile, shared, learned)
                return sent
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _remember(self, profile: ModelProfile, lessons: Lessons, learned: list[tuple[str, str]]) -> None:
        self._lessons[_server_of(profile)] = lessons
        server = without_query(base_url_of(profile) or DEFAULT_BASE_URL)
        for lesson, words in learned:
            _log.warning("from now on this process %s to model %r at %s: %s", lesson, profile.model, server, words)


def _server_of(profile: ModelProfile) -> tuple[str, str, str]:
    return profile.provider, base_url_of(profile) or DEFAULT_BASE_URL, profile.model


def _first_lessons(profile: ModelProfile) -> Lessons:
    name = profile.model.rpartition("/")[2]
    new = profile.provider != "openai-responses" and name.startswith(_NEW_LIMIT_MODELS)
    return Lessons(renamed={"max_tokens": "max_completion_tokens"} if new else {})


def _words_of(failure: ServerFailure) -> str:
    return f"{' '.join(map(repr, failure.places))} {failure.in_words}"


def _is_of_schema(failure: ServerFailure, body: Mapping[str, Any], omitted: set[str]) -> bool:
    """Return True if the refusal, which teaches to leave out `omitted`, may be about the content of a schema.

    A server may quote the schema, so a name in it is no parameter.
    """
    schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
    if schema is None:
        return False
    text, own = _words_of(failure), json.dumps(schema, ensure_ascii=False)
    named = _named(text, body)
    if any(_mentions(own, name) for name in named):
        return True
    if "response_format" not in named and not omitted & {"response_format", "strict"}:
        return False
    is_format = _FORMAT.search(text) and _FORMAT_UNSUPPORTED.search(text)
    return not is_format or _OF_SCHEMA.search(_FORMAT_TYPE.sub("", text)) is not None


def _of_prompt(failure: ServerFailure) -> bool:
    """Return True if the server says that the messages or tools are wrong: a word in them is no parameter."""
    return any(re.match(r"(?:messages|tools|functions|input|contents)\b", one) for one in failure.places)


def _named(text: str, body: Mapping[str, Any]) -> list[str]:
    """Return the parameters of the request that the text names, in the order in which it names them."""
    found = [(place, name) for name in body if name not in _FIXED and (place := _place(text, name)) >= 0]
    return [name for _, name in sorted(found)]


def _place(text: str, name: str) -> int:
    """Return where the text names the parameter, in snake case, camel case or words, or -1."""
    camel = re.sub(r"_(\w)", lambda match: match[1].upper(), name)
    spaced = name.replace("_", " ")
    pattern = "|".join(rf"(?<!\w){re.escape(one)}(?!\w)" for one in sorted({name, camel, spaced}))
    if name.isalpha() and name == camel:  # a plain word, such as "user" or "stop", may be one of the sentence
        word = re.escape(name)
        pattern = (
            rf"['\"`]{word}['\"`.[]|[\w\]]\.{word}(?!\w)|(?:parameter|argument|field|propert\w+|option|input|keyword|param|key|body)s?\b"
            rf"(?:[\w ]{{0,40}}:)?[ .]{{1,2}}\[?{word}(?!\w)"
            rf"|(?<!\w){word}(?= ?(?::|=|(?:is|are|was) |parameter|field|not ))"
        )
    found = re.search(pattern, text, re.IGNORECASE)
    return found.start() if found else -1


def _mentions(text: str, name: str) -> bool:
    return _place(text, name) >= 0


def _has_strict(body: Mapping[str, Any]) -> bool:
    schema = (body.get("response_format") or {}).get("json_schema") or {}
    return "strict" in schema or any("strict" in (tool.get("function") or {}) for tool in body.get("tools", ()))
