"""Types of answers: what a team may name, and what a value becomes."""

import functools
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from roboco import check, tool
from roboco.domain.team.team import Agent
from roboco.errors import UsageError
from roboco.tools.function_loader import FunctionLoader
from roboco.tools.output_types import OutputTypes

MODULE = __name__
SECRET = "sk-live-abcdef 0123"
CALLS: list[object] = []


class Model(BaseModel):
    """A model."""

    number: int


@dataclass
class Data:
    """A dataclass."""

    number: int


class Typed(TypedDict):
    """A TypedDict."""

    number: int


class Word(Enum):
    """An Enum."""

    YES = "yes"


class Client:
    """No type of JSON values."""

    def __call__(self, value: object) -> None:
        CALLS.append(value)


MODELS = list[Model]
CLIENT = Client()
PATH = Path


def wipe(value: object) -> None:
    CALLS.append(value)


WIPE = functools.partial(wipe)


@check
def positive(value: Any) -> Any:
    """Refuse negative numbers, and double the others."""
    if value < 0:
        raise ValueError(f"{value} is negative, key {SECRET}")
    if value > 100:
        raise KeyError(SECRET)
    return 2 * value


@tool
def pay(amount: int) -> str:
    """Pay."""
    CALLS.append(amount)
    return "paid"


def agent(**fields: Any) -> Agent:
    return Agent(name="a", prompt="p", **fields)


def types() -> OutputTypes:
    return OutputTypes(FunctionLoader((MODULE,)), lambda text: text.replace(SECRET, "***"))


@pytest.mark.parametrize(
    ("name", "value"),
    [("Model", {"number": 1}), ("Data", {"number": 1}), ("Typed", {"number": 1}), ("Word", "yes"), ("MODELS", [])],
)
def test_types_of_the_module_check_values(name: str, value: object) -> None:
    named = agent(output=f"{MODULE}:{name}")
    assert types().schema(named)
    assert types().checked(named, value) == value
    with pytest.raises(ValueError, match="found"):
        types().checked(named, {"number": "x"})


@pytest.mark.parametrize("name", ["SECRET", "CLIENT", "Client", "PATH", "wipe", "WIPE", "pay", "CALLS"])
def test_nothing_else_is_a_type_and_no_error_quotes_it(name: str) -> None:
    with pytest.raises(UsageError, match=r"is no type of answers") as found:
        types().schema(agent(output=f"{MODULE}:{name}"))
    assert SECRET not in str(found.value)
    assert CALLS == []


@pytest.mark.parametrize("name", ["wipe", "WIPE", "pay", "CLIENT", "Model"])
def test_only_marked_functions_are_checks(name: str) -> None:
    with pytest.raises(UsageError, match="is not marked with @check"):
        types().schema(agent(output={"type": "integer"}, validate=f"{MODULE}:{name}"))
    assert CALLS == []


def test_a_check_refuses_replaces_or_breaks_without_secrets() -> None:
    checked = agent(output={"type": "integer"}, validate=f"{MODULE}:positive")
    assert types().checked(checked, 4) == 8
    with pytest.raises(ValueError, match=r"-1 is negative, key \*\*\*"):
        types().checked(checked, -1)
    with pytest.raises(UsageError, match=r"the check of its answer failed: KeyError: '\*\*\*'"):
        types().checked(checked, 101)
