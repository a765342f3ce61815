"""The joining of texts: those of one read are passed on as one, later ones after the interval."""

import asyncio

import pytest

from roboco.model import coalescer as module
from roboco.model.coalescer import TextCoalescer


async def passed_on(*reads: list[str]) -> list[str]:
    """Return the texts that are passed on of these reads, with two turns of the loop after each, and no flush."""
    found: list[str] = []
    coalescer = TextCoalescer(found.append)
    for texts in reads:
        for text in texts:
            coalescer.add(text)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    coalescer.discard()
    return found


def test_a_text_after_the_interval_is_passed_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COALESCE_INTERVAL", 0.0)
    assert asyncio.run(passed_on(["one ", "two "], ["three"])) == ["one two ", "three"]


def test_a_text_within_the_interval_waits_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COALESCE_INTERVAL", 60.0)
    assert asyncio.run(passed_on(["one "], ["two "], ["three"])) == ["one "]


def test_discarded_text_is_not_passed_on() -> None:
    async def discard() -> list[str]:
        found: list[str] = []
        coalescer = TextCoalescer(found.append)
        coalescer.add("void")
        coalescer.discard()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return found

    assert asyncio.run(discard()) == []
