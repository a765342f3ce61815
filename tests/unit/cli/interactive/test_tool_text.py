"""Tool calls and results as readable text."""

from typing import Any

import pytest

from roboco.cli.interactive.tool_text import MAX_RESULT_LINES, result_lines


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        ("Three short sentences.", ["Three short sentences."]),
        ("", ["nothing"]),
        (None, ["nothing"]),
        ([], ["[]"]),
        (42, ["42"]),
        (True, ["true"]),
        (["a", 2, None], ["[a, 2, null]"]),
        ({"place": "cuxhaven", "high": [1, 2]}, ["place: cuxhaven", "high: [1, 2]"]),
        ("one\ntwo\n", ["one", "two"]),
        ({"out": "one\ntwo", "code": 0}, ["out: |-", "  one", "  two", "code: 0"]),
        ([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], ["- {a: 1, b: x}", "- {a: 2, b: y}"]),
        ({"hits": [{"a": 1}], "total": 1}, ["hits:", "- {a: 1}", "total: 1"]),
        ("\x1b[2Jevil\u202e", ["\\u001b[2Jevil\\u202e"]),
    ],
)
def test_result_lines(result: Any, lines: list[str]) -> None:
    assert result_lines(result) == lines


def test_a_long_result_is_shortened_and_names_how_much_is_left_out() -> None:
    lines = result_lines([{"n": number} for number in range(30)])
    assert len(lines) == MAX_RESULT_LINES
    assert lines[-1] == f"… {30 - MAX_RESULT_LINES + 1} more lines"
