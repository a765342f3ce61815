"""The exceptions of tools as lines for the log and for `roboco show`: bounded, printable, without secrets."""

from typing import Any

import pytest

from roboco.telemetry.redaction import Redactor
from roboco.tools.tool_failure import (
    MAX_MASKED_TEXTS,
    MAX_TEXT_CHARS,
    error_text,
    failure_lines,
    mask_arguments,
)

SECRET_VALUE = "canary-of-the-shop"


def raised(error: Exception, depth: int = 0, cause: Exception | None = None) -> Exception:
    """Return the caught exception, raised `depth` calls below."""

    def fall(left: int) -> None:
        if left:
            fall(left - 1)
        raise error from cause

    try:
        fall(depth)
    except Exception as caught:
        return caught
    raise AssertionError


def lines(error: Exception, frames: int = 5, mask: Any = str) -> tuple[str, ...]:
    return failure_lines(error, frames, mask)


def test_last_frames_are_kept_with_their_source() -> None:
    found = lines(raised(ValueError("no such order"), depth=50), frames=2)
    assert [line.partition(", line ")[0] for line in found[0:3:2]] == [f'File "{__file__}"'] * 2
    assert found[2].endswith(", in fall")
    assert found[1:] == ("    fall(left - 1)", found[2], "    raise error from cause", "ValueError: no such order")


@pytest.mark.parametrize("text", ["x" * 10_000_000, "a\nERROR forged\r\x1b[31m\u202e\ud800", "\0" * 5000])
def test_text_of_the_exception_is_one_bounded_printable_line(text: str) -> None:
    last = lines(raised(ValueError(text)))[-1]
    assert last.startswith("ValueError: ")
    assert last.isprintable()
    assert len(last) <= MAX_TEXT_CHARS


@pytest.mark.parametrize("argument", ["what the user said", "a\n'quoted' text", "long " * 50_000])
def test_arguments_of_the_call_are_left_out(argument: str) -> None:
    mask = mask_arguments(
        {"order": {"notes": [argument]}, "n": 1, "short": "is"}, Redactor({"SHOP_TOKEN": SECRET_VALUE})
    )
    error = raised(ValueError(f"{argument!r} is refused by {SECRET_VALUE}"), cause=raised(KeyError(argument)))
    texts = [line for line in lines(error, mask=mask) if "Error: " in line]
    assert [text.replace('"', "'") for text in texts] == ["KeyError: '...'", "ValueError: '...' is refused by ***"]


def test_argument_does_not_hide_a_secret_and_a_secret_no_argument() -> None:
    mask = mask_arguments(
        {"part": SECRET_VALUE[:6], "whole": f"for {SECRET_VALUE} only"}, Redactor({"SHOP_TOKEN": SECRET_VALUE})
    )
    assert mask(f"{SECRET_VALUE}, {SECRET_VALUE[:6]}, for {SECRET_VALUE} only") == "***, ..., ..."


def test_text_of_an_exception_is_not_logged_if_the_call_has_too_many_texts() -> None:
    args = {"notes": [f"note {number}" for number in range(MAX_MASKED_TEXTS)]}
    error = raised(ValueError("note 0, note 100"))
    assert failure_lines(error, 5, str, args)[-1] == "ValueError: ..., ...0"
    args["notes"].append("note 100")
    *frames, text = failure_lines(error, 5, str, args)
    assert "note" not in text
    assert text.startswith("ValueError: (its text is not logged, ")
    assert frames
    assert failure_lines(error, 5, str)[-1] == "ValueError: note 0, note 100"


@pytest.mark.parametrize("flaw", [RuntimeError, SystemExit, KeyboardInterrupt])
def test_exception_whose_text_cannot_be_read_is_named(flaw: type[BaseException]) -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise flaw

    assert error_text(Broken()) == f"Broken: (its text cannot be read: {flaw.__name__})"
    assert lines(raised(Broken()))[-1] == f"Broken: (its text cannot be read: {flaw.__name__})"
