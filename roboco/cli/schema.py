"""roboco schema: the JSON Schema of team files."""

import json
from typing import Any

import click

from roboco.domain.team import Team


@click.command()
def schema() -> None:
    """Print the JSON Schema of team files, for editors."""
    click.echo(json.dumps(team_file_schema(), indent=2))


def team_file_schema() -> dict[str, Any]:
    """The JSON Schema of a team as it stands in a file: a prompt may be in a file beside it, an edge just a name."""
    whole = Team.model_json_schema(by_alias=True)
    agent, graph = whole["$defs"]["Agent"], whole["$defs"]["Graph"]
    agent["properties"]["prompt_file"] = {
        "description": "a file with the prompt, beside or below the team file",
        "title": "Prompt File",
        "type": "string",
    }
    agent["required"].remove("prompt")
    agent["oneOf"] = [{"required": ["prompt"]}, {"required": ["prompt_file"]}]
    one = {"anyOf": [{"$ref": "#/$defs/Edge"}, {"type": "string"}]}
    graph["properties"]["routing_graph"]["additionalProperties"] = {
        "anyOf": [*one["anyOf"], {"items": one, "type": "array"}]
    }
    return whole
