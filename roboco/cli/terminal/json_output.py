"""JSON for programs: the result of a command, and the items of a stream."""

import json
from typing import TextIO

import click
from pydantic_core import to_jsonable_python

from roboco.domain.stream.item import StreamItem


def print_json(value: object) -> None:
    """Print a value as JSON: plain data, models, dataclasses, and lists of them."""
    click.echo(json.dumps(to_jsonable_python(value, by_alias=False), indent=2))


def print_result(as_json: bool, value: object, text: str) -> None:
    """Print the value as JSON, or the text for people."""
    print_json(value) if as_json else click.echo(text)


def print_item(file: TextIO, item: StreamItem) -> None:
    """Print the item on one line: its fields, with `type` and the `cursor` after which a later call continues."""
    about = {"task_id": item.task_id} if item.task_id else {}
    record = {"type": item.type, "cursor": item.cursor} | item.data.model_dump(mode="json") | about
    file.write(f"{json.dumps(record)}\n")
    file.flush()
