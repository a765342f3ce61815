"""The matrix of clients and rows: it is driven against a gateway before real workers, and written as a table."""

import json
import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.clients.conformance import conformance_answer, write_conformance_teams
from tests.clients.environments import CONFORMANCE, Client, Environments
from tests.clients.scripts.rows import SCHEMA
from tests.support.documents import GUIDES
from tests.support.gateway_openai import LONG_ANSWER, answer, write_teams
from tests.support.gateway_process import GatewayProcess
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import LONG_LEASE, Stack, until

KILL, HUNDRED = "killed worker", "a hundred runs"
ROWS = (
    *("plain", "stream", "structured output", "resume", "tools", "parameters", "history", "approval", "failure"),
    *("cancel", "stop", HUNDRED, KILL),
)
QUICK_ROWS = (*ROWS[:4], KILL)
"""The rows that each run of the checks drives."""
KILL_SCRIPTS = (
    *("drive_ai_chat.mjs", "drive_use_chat.mjs", "drive_ag_ui.mjs", "drive_mcp.py", "drive_fastmcp.py"),
    *("drive_a2a.py", "drive_a2a.mjs"),
)
"""The scripts with the row for which the agents worker is killed."""
TYPED = {"agents": [{"name": "helper", "prompt": "typed", "output": SCHEMA}]}
CLIENT_SECONDS = 300
"""The longest run of one client's script."""
SHORT_LEASE = 2.0
KILL_SECONDS = 60
"""The time in which each client must have text, before the worker is killed."""
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
    """Run the clients, four at a time, before one stack. Then kill the worker of another one under all of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        teams = write_teams(folder / "teams")
        (teams / "typed.json").write_text(json.dumps({"name": "typed", **TYPED}))
        write_conformance_teams(teams)
        others = [row for row in rows if row != KILL]
        with (
            _webhooks() as hook,
            _gateway(folder / "long", teams, LONG_LEASE, webhooks=(hook,)) as gateway,
            ThreadPoolExecutor(4) as pool,
        ):
            # The suite sets time limits, which a machine exceeds that carries hundreds of runs beside it.
            apart = {one.name: _drive(environments, gateway, one, others) for one in clients if one.name == CONFORMANCE}
            driven = list(
                pool.map(
                    lambda one: apart.get(one.name) or _drive(environments, gateway, one, others, HOOK=hook), clients
                )
            )
        killed = [client for client in clients if KILL in rows and client.script in KILL_SCRIPTS]
        if not killed:
            return driven
        with (
            _gateway(folder / "short", teams, SHORT_LEASE) as gateway,
            _killing(gateway.stack, len(killed)) as url,
            ThreadPoolExecutor(len(killed)) as pool,
        ):
            again = list(pool.map(lambda client: _drive(environments, gateway, client, [KILL], KILL=url), killed))
        outcomes = {one.client.name: one.outcomes for one in again}
        absent = {KILL: ABSENT}
        return [replace(one, outcomes=one.outcomes | outcomes.get(one.client.name, absent)) for one in driven]


@contextmanager
def _gateway(
    folder: Path, teams: Path, lease_seconds: float, webhooks: tuple[str, ...] = ()
) -> Iterator[GatewayProcess]:
    folder.mkdir()
    with Stack(folder, lease_seconds=lease_seconds, teams_dir=teams, allowlist={"webhooks": webhooks}) as stack:
        stack.model.script(_answer)
        with GatewayProcess(stack, roboto_team="desk") as gateway:
            yield gateway


@contextmanager
def _webhooks() -> Iterator[str]:
    """Yield the address of a receiver. GET returns what was posted to its path: the credentials, and each body."""
    posted: dict[str, list[list[object]]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            posted.setdefault(self.path, []).append([self.headers["authorization"], body])
            self.send_response(204)
            self.end_headers()

        def do_GET(self) -> None:
            found = json.dumps(posted.get(self.path, [])).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(found)))
            self.end_headers()
            self.wfile.write(found)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@contextmanager
def _killing(stack: Stack, clients: int) -> Iterator[str]:
    """Yield an address. Once this number of clients has asked for it, the agents worker is killed, and they go on."""

    def stuck(_: Request) -> Reply:
        return Reply(chunks=["".join(LONG_ANSWER[:5]), *LONG_ANSWER[5:]], interval=KILL_SECONDS)

    def kill() -> None:
        stack.model.script(_answer)
        stack.restart("agents")

    stack.model.script(stuck)
    barrier = threading.Barrier(clients, kill, timeout=KILL_SECONDS)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(threading.BrokenBarrierError):  # a client has failed: the others are not killed
                barrier.wait()
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


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
    if (reply := conformance_answer(request)) is not None:
        return reply
    if "twice" in request.last_user and "add" in request.tools and not request.tool_results:
        return Reply(tool_calls=[("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})])
    if "brisk" in request.last_user:
        return Reply(chunks=LONG_ANSWER, interval=0.05)
    if "as JSON" not in request.last_user:
        return answer(request)
    place: dict[str, object] = {"city": "Bonn", "degrees": 21}
    if tools := [name for name in request.tools if name.startswith("client_")]:
        return Reply(tool_calls=[(tools[0], place)])
    return Reply(text=json.dumps(place))


def _cell(one: Driven, row: str, reasons: list[str]) -> str:
    if (one.client.name, row) in KNOWN:
        return f"no ({reasons.index(KNOWN[one.client.name, row]) + 1})"
    return {"ok": "yes", ABSENT: "–", "": ""}.get(one.outcomes.get(row, ""), "**fails**")


def _drive(
    environments: Environments, gateway: GatewayProcess, client: Client, rows: Sequence[str], **more: str
) -> Driven:
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
        **more,
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
    if outcomes.get(HUNDRED) == "ok":
        outcomes[HUNDRED] = _hundred(gateway.stack, client)
    return Driven(client, environments.version(client), outcomes)


def _hundred(stack: Stack, client: Client) -> str:
    """Return "ok" if a hundred histories end with the answer to their prompt, which each run has had."""
    tasks = [
        stack.orchestrator.task(one.task_id) for one in stack.orchestrator.tasks(text=f"hundred for {client.name}:")
    ]
    answers = [task.history()[-1].text == f"helper answers message 1: {task.history()[0].text}" for task in tasks]
    return "ok" if answers == [True] * 100 else f"{sum(answers)} of {len(answers)} histories have the answer"


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
