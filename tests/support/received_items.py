"""The items that a follower has received, comparable with those of another one."""

from collections.abc import Iterable

from roboco.domain.stream.item import StreamItem, TextPartDelta


def comparable(items: Iterable[StreamItem]) -> list[str]:
    """Return the items, with the text of each step in place of its pieces.

    A follower that is later than the commit of a step may receive the step's text as one piece.
    """
    found: list[str] = []
    texts: dict[str, str] = {}
    for item in items:
        if isinstance(item.data, TextPartDelta):
            before = "" if item.data.replace else texts.get(item.data.step_id, "")
            texts[item.data.step_id] = before + item.data.text
            continue
        found.append(repr(item.data))
        if item.type == "step_final":
            found.append(texts.pop(item.data.step.step_id, ""))
    return found
