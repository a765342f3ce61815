"""Filters that select or sort the items of a list or object: Jinja's by name and result, charged in advance."""

from collections.abc import Callable, Iterator
from typing import Any

from roboco.adapters.templates.template_tests import holds
from roboco.adapters.templates.values import (
    Allowance,
    Missing,
    TemplateFailure,
    attribute,
    items_of,
    needed,
    number,
    short,
    text,
)

Filter = Callable[..., Any]
_MOST_ITEMS_SORTED = 5000
_LONGEST_PATH = 1000
_LONGEST_KEY = 1000
"""Number of characters of a text that determine its order."""


def getter(path: Any) -> Callable[[Any], Any]:
    """Return a function that returns the value at the dotted path, or the item itself without a path."""
    found = _found_at(path)
    return lambda item: needed(found(item))


def _found_at(path: Any) -> Callable[[Any], Any]:
    """Return a function that returns the value at the dotted path, or Missing."""
    if path is None:
        return lambda item: item
    names: list[Any] = [path] if isinstance(path, int) else _names(path)

    def get(item: Any) -> Any:
        for name in names:
            item = attribute(item, name)
        return item

    return get


def _names(path: Any) -> list[Any]:
    if len(text(path)) > _LONGEST_PATH:
        raise TemplateFailure(f"an attribute's path has up to {_LONGEST_PATH} characters")
    return [int(name) if name.isdecimal() and len(name) < 9 else name for name in text(path).split(".", 10)]


def _selection(wanted: bool, of_attribute: bool) -> Filter:
    """Return the filter that keeps the items that pass a test, by their value or an attribute, or are true."""

    def apply(allowance: Allowance, value: Any, *args: Any) -> list[Any]:
        if of_attribute and not args:
            raise TemplateFailure("name the attribute")
        get = _found_at(args[0] if of_attribute else None)
        test = args[of_attribute:]
        items = items_of(value, allowance)
        allowance.step(len(items) * (2 if of_attribute else 1))
        return [item for item in items if _passes(get(item), test, allowance) == wanted]

    return apply


def _passes(value: Any, test: tuple[Any, ...], allowance: Allowance) -> bool:
    return holds(text(test[0]), value, test[1:], allowance) if test else bool(needed(value))


def _extreme(choose: Callable[..., int], word: str) -> Filter:
    def apply(allowance: Allowance, value: Any, case_sensitive: bool = False, attribute: Any = None) -> Any:
        items = items_of(value, allowance)
        if not items:
            return Missing(f"the list is empty, its {word} item is undefined")
        keys = _keys(map(getter(attribute), items), case_sensitive, allowance)
        return items[choose(range(len(items)), key=keys.__getitem__)]

    return apply


def _sorted(allowance: Allowance, value: Any, reverse: bool = False, attribute: Any = None) -> list[Any]:
    items = _few(items_of(value, allowance), allowance)
    return _in_order(items, _keys(map(getter(attribute), items), False, allowance), reverse)


def _dictsort(
    allowance: Allowance, value: Any, case_sensitive: bool = False, by: str = "key", reverse: bool = False
) -> list[Any]:
    if not isinstance(needed(value), dict):
        raise TemplateFailure(f"{short(value)} is no object")
    if by not in ("key", "value"):
        raise TemplateFailure(f"objects are sorted by 'key' or 'value', not by {short(by)}")
    allowance.step(len(value))
    pairs = _few(list(value.items()), allowance)
    return _in_order(pairs, _keys((pair[by == "value"] for pair in pairs), case_sensitive, allowance), reverse)


def _few(items: list[Any], allowance: Allowance) -> list[Any]:
    if len(items) > _MOST_ITEMS_SORTED:
        raise TemplateFailure(f"up to {_MOST_ITEMS_SORTED} items are sorted")
    allowance.step(10 * len(items))
    return items


def _in_order(items: list[Any], keys: list[Any], reverse: bool) -> list[Any]:
    return [items[place] for place in sorted(range(len(items)), key=keys.__getitem__, reverse=bool(reverse))]


def _keys(values: Iterator[Any], case_sensitive: bool, allowance: Allowance) -> list[Any]:
    """Return the sort keys of the values: all texts, case-sensitive or not, or all numbers."""
    keys = [_key(value, case_sensitive, allowance) for value in values]
    if len({isinstance(key, str) for key in keys}) > 1:
        raise TemplateFailure("texts and numbers are not sorted together")
    return keys


def _key(value: Any, case_sensitive: bool, allowance: Allowance) -> Any:
    if not isinstance(value, str):
        return number(value)
    kept = value[:_LONGEST_KEY]
    allowance.step(len(kept) // 50)
    return kept if case_sensitive else kept.lower()


SELECTIONS: dict[str, Filter] = {
    "dictsort": _dictsort,
    "max": _extreme(max, "largest"),
    "min": _extreme(min, "smallest"),
    "reject": _selection(False, of_attribute=False),
    "rejectattr": _selection(False, of_attribute=True),
    "select": _selection(True, of_attribute=False),
    "selectattr": _selection(True, of_attribute=True),
    "sort": _sorted,
}
