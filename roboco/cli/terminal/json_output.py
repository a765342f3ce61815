"""JSON on standard output: the result of a command, for programs."""

import json

import click
from pydantic_core import to_jsonable_python


def print_json(value: object) -> None:
    """Print a value as JSON: plain data, models, dataclasses, and lists of them."""
    click.echo(json.dumps(to_jsonable_python(value, by_alias=False), indent=2))


def print_result(as_json: bool, value: object, text: str) -> None:
    """Print the value as JSON, or the text for people."""
    print_json(value) if as_json else click.echo(text)
