"""JSON on standard output: the result of a command, for programs."""

import json

import click
from pydantic_core import to_jsonable_python


def print_json(value: object) -> None:
    """Print a value as JSON: plain data, models, dataclasses, and lists of them."""
    click.echo(json.dumps(to_jsonable_python(value, by_alias=False), indent=2))
