"""DevStack: a permanent Roboco on one machine: servers, workers, Flower and the gateway, with data in a folder."""

import os
import secrets
import shlex
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from roboco.cli.stack.celery_process import environment, start_celery, start_gateway, start_worker
from roboco.cli.stack.local_model import LocalModel, Report, model_environment, names_model
from roboco.cli.stack.supervisor import Component, Supervisor
from roboco.errors import RobocoError, UsageError
from roboco.local.process import LOOPBACK, Server, choose_port, free_port
from roboco.local.seaweed import find_weed, start_seaweed, write_private
from roboco.local.valkey import start_valkey
from roboco.process.extras import require_extra
from roboco.settings import load_settings

POOLS = ("coordinator", "agents", "tools")
FLOWER_COLUMNS = "name,args,uuid,state,received,runtime,worker"
"""Flower's columns, with the worker of each task. Flower shows the arguments on request only."""
_PORT_COUNT = 14
"""Valkey, Flower, the local model, ten of the S3 server, and the gateway."""
_CONFLICTING_VARIABLES = ("AWS_PROFILE", "AWS_SESSION_TOKEN")
"""Variables of the user's environment that do not fit the keys of the S3 server that is started here."""


class DevStack:
    """Starts its parts one by one; `supervisor` keeps and stops them.

    `exports` are the variables by which other processes find it.
    """

    def __init__(self, folder: Path, base: int | None, report: Report) -> None:
        self.folder = _create_folder(folder.absolute())
        self.supervisor = Supervisor(report)
        self.exports: dict[str, str] = {}
        self.password = secrets.token_urlsafe(12)
        self._port_base_file = self.folder / "port-base"
        self._first_port = _choose_first_port(self._port_base_file, base)
        self._report = report

    @property
    def flower(self) -> str:
        """Flower's address."""
        return f"http://{LOOPBACK}:{self._first_port + 1}"

    @property
    def gateway(self) -> str:
        """The gateway's address."""
        return f"http://{LOOPBACK}:{self._gateway_port}"

    @property
    def _gateway_port(self) -> int:
        return self._first_port + _PORT_COUNT - 1

    def start(self) -> None:
        """Start everything. The model is downloaded beside the servers; the workers and Flower get ready later."""
        for extra in ("workers", "flower", "gateway"):
            require_extra(extra, "roboco dev", "dev-server")
        with ExitStack() as undone:
            model = self._begin_model()
            if model is not None:
                undone.callback(model.close)
            self._start_parts(model)
            undone.pop_all()

    def _start_parts(self, model: LocalModel | None) -> None:
        folder = self.folder / "valkey"
        valkey = Component("valkey", folder / "valkey.log", partial(start_valkey, folder, self._first_port))
        self.exports["ROBOCO_REDIS_URL"] = self.supervisor.add(valkey).url
        self._port_base_file.write_text(f"{self._first_port}\n")  # now that the folder is ours
        self._start_workspace()
        env = self._environment(answering := self._start_model(model))
        self.exports |= {name: value for name, value in answering.items() if name.startswith("OPENAI_")}
        for pool in POOLS:
            self._add_part(pool, b" ready.", partial(start_worker, pool, f"roboco.workers.{pool}", env))
        self._add_part("flower", b"Visit me at", partial(self._start_flower, env))
        with_flower = {"ROBOCO_GATEWAY_FLOWER_URL": self.flower, **env}
        self._add_part("gateway", b"roboco serve listens", partial(start_gateway, self._gateway_port, with_flower))
        write_private(self.folder / "env", self.export_lines())

    def addresses(self) -> dict[str, str]:
        """Return the name and the address of each part, for people."""
        place = self.exports.get("ROBOCO_S3_ENDPOINT_URL", "")
        return {
            "redis": self.exports["ROBOCO_REDIS_URL"],
            "workspace": f"{self.exports['ROBOCO_WORKSPACE']} {place and f'at {place}'}".rstrip(),
            "flower": f"{self.flower} user roboco, password {self.password}",
            "web view": f"{self.gateway}/ and HTTP gateway, for this machine alone, without a key",
            "workers": ", ".join(POOLS),
            "logs": f"{os.path.relpath(self.folder)}/*.log",
        }

    def export_lines(self) -> str:
        """Return the lines that a shell runs to find this stack."""
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in self.exports.items()]
        foreign = [f"unset {' '.join(_CONFLICTING_VARIABLES)}\n"] if "AWS_ACCESS_KEY_ID" in self.exports else []
        return "".join(lines + foreign)

    def _start_workspace(self) -> None:
        try:
            find_weed()
        except UsageError as error:
            self._report(f"the workspace is a folder: {error}")
            self.exports["ROBOCO_WORKSPACE"] = (self.folder / "workspace").as_uri()
            return
        folder = self.folder / "s3"
        begin = partial(start_seaweed, folder, self._first_port + 3)
        server = self.supervisor.add(Component("s3 server", folder / "seaweed.log", begin))
        self.exports |= {
            "ROBOCO_WORKSPACE": f"s3://{server.bucket}/workspace",
            "ROBOCO_S3_ENDPOINT_URL": server.endpoint_url,
            "AWS_ACCESS_KEY_ID": server.access_key,
            "AWS_SECRET_ACCESS_KEY": server.secret_key,
        }

    def _begin_model(self) -> LocalModel | None:
        """Return the local model, or None if another model is named or none can be had."""
        if names_model(os.environ):
            return None
        try:
            return LocalModel(self.folder, self._first_port + 2, self._report)
        except RobocoError as error:
            self._report(f"no model answers: {error}")
            return None

    def _start_model(self, model: LocalModel | None) -> dict[str, str]:
        """Start the local model if there is one, and return the variables that send the workers to it."""
        if model is None:
            return {}
        try:
            server = self.supervisor.add(Component("local model", self.folder / "llama.log", model.ready))
        except RobocoError as error:
            self._report(f"no model answers: {error}")
            return {}
        self._report(f"{model.name} answers; set OPENAI_API_KEY to use a hosted one")
        return model_environment(server.port)

    def _environment(self, model: dict[str, str]) -> dict[str, str]:
        ours = {name.removeprefix("ROBOCO_").lower(): value for name, value in self.exports.items()}
        named = {name: value for name, value in ours.items() if not name.startswith("aws_")}
        settings = load_settings().model_copy(update={"broker_url": None, "s3_endpoint_url": None} | named)
        foreign = (*_CONFLICTING_VARIABLES, *(name for name in os.environ if name.startswith("FLOWER_")))
        env = environment(settings, self.exports | model)
        return {name: value for name, value in env.items() if name not in foreign}

    def _add_part(self, name: str, sign: bytes, begin: Callable[[Path], Server]) -> None:
        log = self.folder / f"{name}.log"
        log.unlink(missing_ok=True)
        self.supervisor.add(Component(name, log, lambda: begin(log), sign))

    def _start_flower(self, env: Mapping[str, str], log: Path) -> Server:
        arguments = [
            "flower",
            f"--address={LOOPBACK}",
            f"--port={self._first_port + 1}",
            "--max_tasks=20000",
            "--purge_offline_workers=300",
            f"--tasks_columns={FLOWER_COLUMNS}",
            f"--conf={os.devnull}",  # else a flowerconfig.py of the current folder
        ]
        # The password is in the environment, because every user of the machine sees a command line.
        return start_celery(
            "flower", "roboco.workers.app", arguments, {**env, "FLOWER_BASIC_AUTH": f"roboco:{self.password}"}, log
        )


def _create_folder(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / ".gitignore").write_text("*\n")
    except OSError as error:
        raise UsageError(f"folder {str(folder)!r} cannot be used: {error.strerror}; choose another --folder") from error
    return folder


def _choose_first_port(file: Path, wanted: int | None) -> int:
    """Return the first of the stack's ports: the wanted one, else the last one used if all are free, else any."""
    if wanted is not None:
        return choose_port(wanted, _PORT_COUNT)
    try:
        return choose_port(int(file.read_text()), _PORT_COUNT)
    except (OSError, ValueError, UsageError):
        return free_port(_PORT_COUNT)
