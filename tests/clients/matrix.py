"""The matrix of clients and rows: it is driven against a gateway before real workers, and written as a table."""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.clients.environments import Client, Environments
from tests.support.documents import GUIDES
from tests.support.gateway_openai import GatewayProcess, answer, openai_gateway, write_teams
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import LONG_LEASE, Stack, until

ROWS = ("plain", "stream", "structured output", "resume", "tools", "parameters", "history", "approval", "cancel")
QUICK_ROWS = ROWS[:4]
"""The rows that each run of the checks drives."""
CLIENT_SECONDS = 300
"""The longest run of one client's script."""
REST_SECONDS = 30
"""The time in which the work of a client that has cancelled must end."""
ABSENT = "-"
_NO_CANCEL = "it sends responses, and closes its connection: the task goes on, and `POST /responses/ID/cancel` ends it"
KNOWN = {("@ai-sdk/openai", "cancel"): _NO_CANCEL, ("@ai-sdk/open-responses", "cancel"): _NO_CANCEL}
"""Rows that fail, by client and row, with the reason for the table. A row that passes must not be here."""
TABLE = re.compile(r"(?<=<!-- matrix -->\n).*?(?=<!-- end of the matrix -->)", re.DOTALL)


@dataclass(frozen=True)
class Driven:
    """A client with the outcome of each row: "ok", "-" if the client has no such feature, or its error."""

    client: Client
    version: str
    outcomes: dict[str, str]

    @property
    def unexpected(self) -> dict[str, str]:
        """The outcomes that differ from the table."""
        return {
            row: outcome
            for row, outcome in self.outcomes.items()
            if (outcome not in ("ok", ABSENT)) != ((self.client.name, row) in KNOWN)
        }


def drive(environments: Environments, clients: Sequence[Client], rows: Sequence[str]) -> list[Driven]:
    """Run the clients, two at a time, before one stack."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        teams = write_teams(folder / "teams")
        with Stack(folder, lease_seconds=LONG_LEASE, teams_dir=teams) as stack:
            stack.model.script(_answer)
            with openai_gateway(stack, ROBOCO_GATEWAY_ROBOTO_TEAM="desk") as gateway, ThreadPoolExecutor(2) as pool:
                return list(pool.map(lambda client: _drive(environments, gateway, client, rows), clients))


def table(driven: Sequence[Driven]) -> str:
    """Return the matrix as a table of Markdown, with the reasons of its gaps below."""
    reasons = list(dict.fromkeys(KNOWN.values()))
    rows = [row for row in ROWS if any(row in one.outcomes for one in driven)]
    lines = [f"| client | release | {' | '.join(rows)} |", f"|---|---|{'---|' * len(rows)}"]
    for one in driven:
        cells = [_cell(one, row, reasons) for row in rows]
        lines.append(f"| {one.client.name} | {one.version} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))]).rstrip() + "\n"


def write_table(driven: Sequence[Driven]) -> None:
    """Write the table into the guide."""
    guide = GUIDES / "clients.md"
    guide.write_text(TABLE.sub(lambda _: f"\n{table(driven)}\n", guide.read_text()))


def _answer(request: Request) -> Reply:
    """Return the answer of the other tests, or JSON to a prompt that asks for it: in a call if it has a function."""
    if "as JSON" not in request.last_user:
        return answer(request)
    place: dict[str, object] = {"city": "Bonn", "degrees": 21}
    if tools := [name for name in request.tools if name.startswith("client_")]:
        return Reply(tool_calls=[(tools[0], place)])
    return Reply(text=json.dumps(place))


def _cell(one: Driven, row: str, reasons: list[str]) -> str:
    if (one.client.name, row) in KNOWN:
        return f"no ({reasons.index(KNOWN[one.client.name, row]) + 1})"
    return {"ok": "yes", ABSENT: "–"}.get(one.outcomes[row], "**fails**")


def _drive(environments: Environments, gateway: GatewayProcess, client: Client, rows: Sequence[str]) -> Driven:
    url = gateway.base_url
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(gateway.stack.folder),
        "TMPDIR": str(gateway.stack.folder),
        "OPENAI_BASE_URL": url,
        "OPENAI_API_KEY": "none",
        "ROBOTO_SERVICE_ENDPOINT": url.removesuffix("/openai/v1"),
        "ROBOTO_API_KEY": "none",
        **client.variables,
    }
    command = [*environments.command(client), *rows]
    try:
        done = subprocess.run(command, env=variables, capture_output=True, timeout=CLIENT_SECONDS)
        out, ending = done.stdout, f"the process ended: {done.stderr.decode().strip()[-500:]}"
    except subprocess.TimeoutExpired as error:
        out, ending = error.stdout or b"", f"it took over {CLIENT_SECONDS} s"
    found = [json.loads(line) for line in out.splitlines() if line.startswith(b'{"row"')]
    outcomes = {**dict.fromkeys(rows, ending), **{one["row"]: one["outcome"] for one in found}}
    if outcomes.get("cancel") == "ok":
        outcomes["cancel"] = _rest(gateway.stack, client)
    return Driven(client, environments.version(client), outcomes)


def _rest(stack: Stack, client: Client) -> str:
    """Return "ok" once no task of the client's row `cancel` works, or the reason why that row fails."""

    def tasks() -> list[str]:
        text = f"endless for {client.name}."
        return [entry.status for entry in stack.orchestrator.tasks(text=text)]

    try:
        until(lambda: tasks() and "running" not in tasks(), REST_SECONDS, "the work ends")
    except AssertionError:
        return f"the work goes on: {tasks()}"
    return "ok"
