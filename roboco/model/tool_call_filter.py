"""ToolCallFilter: the words of a model without native tool calling, without the tool calls that it writes as JSON.

A model that has called tools before writes further calls as text even if it has no tools at the moment: in fences,
after prose, cut off in the middle. A brace may begin such a call, or an example for the reader. The filter holds the
text back from the first suspicious character until the first key decides.

    prose ─► "{", "[" or a fence ─► held ─► first key is "tool", "calls", ... ─► removed up to the closing brace
                                       └─► anything else ─► published
"""

import re
from collections.abc import Callable
from typing import Final

HELD_CHARS: Final = 80
"""Characters that are held back at most before the filter decides that they begin no tool call."""

_SUSPICIOUS = re.compile(r"[`\[{]")
_FENCE = r"(?:`{3,}[ \t]*\w*\s*)?"
_CALL = re.compile(
    _FENCE + r"(?P<json>(?:\[\s*)?\{\s*"
    r'"(?:(?:calls|tool|tool_calls?|function|function_call)"|name"\s*:\s*"[^"]*"\s*,\s*"(?:args|arguments|parameters)")\s*:)'
)
"""The beginning of a tool call, in the formats that models learn."""
_BARELY_BEGUN = re.compile(_FENCE + r'(?:\[\s*)?\{\s*(?:"\w*"?\s*:?\s*)?\Z')
"""The whole text of an object that was cut off before its first value."""
_CLOSING_FENCE = re.compile(r"\s*`{3,}[ \t]*\n")
_MAYBE_CLOSING_FENCE = re.compile(r"\s*`*[ \t]*\Z")


class ToolCallFilter:
    """Takes the texts of one answer and returns the parts of them that are words."""

    def __init__(self) -> None:
        self._held = ""
        self._object: _ObjectEnd | None = None
        self._fenced = False
        self.removed = False
        """True if a tool call was removed."""

    def feed(self, text: str) -> str:
        """Return the words that are certain now.

        A server may send a whole answer at once. It is taken in pieces, so that the time grows with the length alone.
        """
        words: list[str] = []
        for start in range(0, len(text), HELD_CHARS):
            self._held += text[start : start + HELD_CHARS]
            while self._held and (taken := self._next_words()) is not None:
                words.append(taken)
        return "".join(words)

    def finish(self) -> str:
        """Return the words that were held back. A tool call without its end is removed."""
        words, self._held = ("" if self._object else self._held), ""
        if _BARELY_BEGUN.match(words):
            self.removed = True
            return ""
        return "" if self._fenced and _MAYBE_CLOSING_FENCE.match(words) else words

    def _next_words(self) -> str | None:
        """Take words or a part of a tool call from the held text; return the words, or None if more must arrive."""
        if self._object is not None:
            return self._skip_object(self._object)
        if self._fenced:
            return self._skip_fence()
        suspicious = _SUSPICIOUS.search(self._held)
        if suspicious is None:
            return self._take(len(self._held))
        if suspicious.start():
            return self._take(suspicious.start())
        if call := _CALL.match(self._held):
            self.removed = True
            self._fenced = self._held.startswith("`")
            self._take(call.start("json"))
            self._object = _ObjectEnd()
            return ""
        return self._take(1) if len(self._held) >= HELD_CHARS else None

    def _skip_object(self, end: "_ObjectEnd") -> str:
        place = end.find(self._held)
        if place is not None:
            self._object = None
        self._take(len(self._held) if place is None else place)
        return ""

    def _skip_fence(self) -> str | None:
        """Remove the fence behind a tool call that had one before it."""
        if fence := _CLOSING_FENCE.match(self._held):
            self._take(fence.end())
        elif len(self._held) < HELD_CHARS and _MAYBE_CLOSING_FENCE.match(self._held):
            return None
        self._fenced = False
        return ""

    def _take(self, count: int) -> str:
        taken, self._held = self._held[:count], self._held[count:]
        return taken


class _ObjectEnd:
    """Finds the bracket that closes the first one. Brackets within strings do not count; the JSON need not be valid."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def find(self, text: str) -> int | None:
        """Return the place behind the closing bracket, or None if it is not in this text."""
        for place, sign in enumerate(text):
            if self._in_string:
                self._in_string = self._escaped or sign != '"'
                self._escaped = not self._escaped and sign == "\\"
            elif sign == '"':
                self._in_string = True
            elif sign in "[{":
                self._depth += 1
            elif sign in "]}":
                self._depth -= 1
                if self._depth == 0:
                    return place + 1
        return None


class SpokenWords:
    """Passes the words of one answer to `say`, and no tool calls."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._filter = ToolCallFilter()
        self._spoken = False

    @property
    def only_calls(self) -> bool:
        """True if the answer, as far as it has arrived, consists of tool calls alone."""
        return self._filter.removed and not self._spoken

    def say(self, text: str) -> None:
        """Pass on the words that are certain with this text."""
        self._pass_on(self._filter.feed(text))

    def finish(self) -> None:
        """Pass on the words that were held back. The answer is complete."""
        self._pass_on(self._filter.finish())

    def _pass_on(self, words: str) -> None:
        self._spoken = self._spoken or bool(words.strip())
        if words and self._spoken:  # no blank lines in place of a removed call
            self._say(words)
