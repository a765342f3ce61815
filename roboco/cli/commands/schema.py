"""roboco schema: the JSON Schema of team files."""

from typing import Any

import click

from roboco.cli.terminal import options
from roboco.cli.terminal.json_output import print_json
from roboco.domain.team.mcp_server import MAX_SERVER_TOOLS
from roboco.domain.team.team import Team
from roboco.team_files.field_descriptions import describe_fields


@click.command()
@options.always_json
def schema() -> None:
    """Print the JSON Schema of team files, for editors."""
    print_json(team_file_schema())


def team_file_schema() -> dict[str, Any]:
    """Return the JSON Schema of a team file.

    In a file, a prompt may be in another file beside it, an edge may be just a name, and a server's tools may be a list
    of names.
    """
    whole = Team.model_json_schema(by_alias=True)
    describe_fields(whole, Team)
    agent, graph = whole["$defs"]["Agent"], whole["$defs"]["Graph"]
    agent["properties"]["prompt_file"] = {
        "description": "a file with the prompt, beside or below the team file",
        "title": "Prompt File",
        "type": "string",
    }
    agent["oneOf"] = [{"required": [name]} for name in ("prompt", "prompt_file", "function", "map")]
    one = {"anyOf": [{"$ref": "#/$defs/Edge"}, {"type": "string"}]}
    graph["properties"]["routing_graph"]["additionalProperties"] = {
        "anyOf": [*one["anyOf"], {"items": one, "type": "array"}]
    }
    names = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}
    tools = whole["$defs"]["McpServer"]["properties"]["tools"]["oneOf"]
    tools.append({"items": names, "maxItems": MAX_SERVER_TOOLS, "minItems": 1, "type": "array", "uniqueItems": True})
    return whole
