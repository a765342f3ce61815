"""Tools of a user, each of which fails the test that calls it."""

from typing import Any, Literal

from pydantic import BaseModel

from roboco import ToolContext, tool


class Receipt(BaseModel):
    """The receipt of a payment."""

    order: str
    state: Literal["paid", "open"]


@tool
def pay(order: str, amount: float) -> Receipt:
    """Pay an order."""
    raise AssertionError("a real payment")


def _verify(args: dict[str, Any], key: str) -> Any:
    raise AssertionError("a real verification")


@tool(verify=_verify)
def send_mail(to: str, context: ToolContext, urgent: bool = False) -> str:
    """Send a mail."""
    raise AssertionError("a real mail")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
