"""Filters that select or sort the items of a list or object: Jinja's by name and result, charged in advance."""

from collections.abc import Callable, Iterator
from typing import Any

from roboco.adapters.templates.template_tests import passes_test
from roboco.adapters.templates.values import (
    RenderBudget,
    TemplateFailure,
    Undefined,
    get_attribute,
    loop_items,
    preview,
    require_defined,
    require_number,
    require_text,
)

Filter = Callable[..., Any]
_MAX_SORTED_ITEMS = 5000
_MAX_PATH_CHARS = 1000
_MAX_KEY_CHARS = 1000
"""Number of characters of a text that determine its order."""


def attribute_getter(path: Any) -> Callable[[Any], Any]:
    """Return a function that returns the value at the dotted path, or the item itself without a path."""
    found = _path_getter(path)
    return lambda item: require_defined(found(item))


def _path_getter(path: Any) -> Callable[[Any], Any]:
    """Return a function that returns the value at the dotted path, or Undefined."""
    if path is None:
        return lambda item: item
    names: list[Any] = [path] if isinstance(path, int) else _split_path(path)

    def get(item: Any) -> Any:
        for name in names:
            item = get_attribute(item, name)
        return item

    return get


def _split_path(path: Any) -> list[Any]:
    if len(require_text(path)) > _MAX_PATH_CHARS:
        raise TemplateFailure(f"an attribute's path has up to {_MAX_PATH_CHARS} characters")
    return [int(name) if name.isdecimal() and len(name) < 9 else name for name in require_text(path).split(".", 10)]


def _selection_filter(wanted: bool, of_attribute: bool) -> Filter:
    """Return the filter that keeps the items that pass a test, by their value or an attribute, or are true."""

    def apply(budget: RenderBudget, value: Any, *args: Any) -> list[Any]:
        if of_attribute and not args:
            raise TemplateFailure("name the attribute")
        get = _path_getter(args[0] if of_attribute else None)
        test = args[of_attribute:]
        items = loop_items(value, budget)
        budget.charge_steps(len(items) * (2 if of_attribute else 1))
        return [item for item in items if _passes(get(item), test, budget) == wanted]

    return apply


def _passes(value: Any, test: tuple[Any, ...], budget: RenderBudget) -> bool:
    return passes_test(require_text(test[0]), value, test[1:], budget) if test else bool(require_defined(value))


def _extreme_filter(choose: Callable[..., int], word: str) -> Filter:
    def apply(budget: RenderBudget, value: Any, case_sensitive: bool = False, attribute: Any = None) -> Any:
        items = loop_items(value, budget)
        if not items:
            return Undefined(f"the list is empty, its {word} item is undefined")
        keys = _sort_keys(map(attribute_getter(attribute), items), case_sensitive, budget)
        return items[choose(range(len(items)), key=keys.__getitem__)]

    return apply


def _sorted(budget: RenderBudget, value: Any, reverse: bool = False, attribute: Any = None) -> list[Any]:
    items = _check_sortable(loop_items(value, budget), budget)
    return _sort_by_keys(items, _sort_keys(map(attribute_getter(attribute), items), False, budget), reverse)


def _dictsort(
    budget: RenderBudget, value: Any, case_sensitive: bool = False, by: str = "key", reverse: bool = False
) -> list[Any]:
    if not isinstance(require_defined(value), dict):
        raise TemplateFailure(f"{preview(value)} is no object")
    if by not in ("key", "value"):
        raise TemplateFailure(f"objects are sorted by 'key' or 'value', not by {preview(by)}")
    budget.charge_steps(len(value))
    pairs = _check_sortable(list(value.items()), budget)
    return _sort_by_keys(pairs, _sort_keys((pair[by == "value"] for pair in pairs), case_sensitive, budget), reverse)


def _check_sortable(items: list[Any], budget: RenderBudget) -> list[Any]:
    if len(items) > _MAX_SORTED_ITEMS:
        raise TemplateFailure(f"up to {_MAX_SORTED_ITEMS} items are sorted")
    budget.charge_steps(10 * len(items))
    return items


def _sort_by_keys(items: list[Any], keys: list[Any], reverse: bool) -> list[Any]:
    return [items[place] for place in sorted(range(len(items)), key=keys.__getitem__, reverse=bool(reverse))]


def _sort_keys(values: Iterator[Any], case_sensitive: bool, budget: RenderBudget) -> list[Any]:
    """Return the sort keys of the values: all texts, case-sensitive or not, or all numbers."""
    keys = [_sort_key(value, case_sensitive, budget) for value in values]
    if len({isinstance(key, str) for key in keys}) > 1:
        raise TemplateFailure("texts and numbers are not sorted together")
    return keys


def _sort_key(value: Any, case_sensitive: bool, budget: RenderBudget) -> Any:
    if not isinstance(value, str):
        return require_number(value)
    kept = value[:_MAX_KEY_CHARS]
    budget.charge_steps(len(kept) // 50)
    return kept if case_sensitive else kept.lower()


SELECTION_FILTERS: dict[str, Filter] = {
    "dictsort": _dictsort,
    "max": _extreme_filter(max, "largest"),
    "min": _extreme_filter(min, "smallest"),
    "reject": _selection_filter(False, of_attribute=False),
    "rejectattr": _selection_filter(False, of_attribute=True),
    "select": _selection_filter(True, of_attribute=False),
    "selectattr": _selection_filter(True, of_attribute=True),
    "sort": _sorted,
}
