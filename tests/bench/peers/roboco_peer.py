"""Roboco: the pools of production with two agents workers, and the workspace in a folder."""

from collections.abc import Iterator, Sequence
from functools import cache

from roboco import Orchestrator, Settings, Team, parse_team
from roboco.domain.stream.event import TurnRestarted
from roboco.domain.stream.item import TextPartDelta
from roboco.local.valkey import start_valkey
from tests.bench.peers.errand import AGENTS, USER_PROMPT
from tests.bench.peers.peer import TASK_TIMEOUT, VOID_MARK, Peer


class RobocoPeer(Peer):
    """A sequential team with default settings."""

    name = "Roboco"

    def set_up(self) -> None:
        valkey = start_valkey(self.folder / "valkey")
        self.exits.callback(valkey.stop)
        self.servers.append(valkey)
        settings = Settings(redis_url=valkey.url, workspace=f"file://{self.folder}/workspace")
        self.environment |= settings.environment()
        for pool in ("coordinator", "tools"):
            self.servers.append(self.spawn(pool, _pool(pool, pool)))
            self.exits.callback(self.servers[-1].stop)
        self._orchestrator = self.exits.enter_context(Orchestrator(settings))

    def worker_command(self, number: int) -> list[str]:
        return _pool("agents", f"agents-{number}")

    def submit(self, task: str, prompts: Sequence[str]) -> None:
        self._orchestrator.run(_team(tuple(prompts)), USER_PROMPT, task_id=task)

    def result(self, task: str) -> str:
        result = self._orchestrator.task(task).result(TASK_TIMEOUT)
        assert result.status == "completed", result
        return result.text

    def ended(self, task: str) -> bool:
        return self._orchestrator.task(task).summary().status.ended

    def follow(self, task: str) -> Iterator[str]:
        for item in self._orchestrator.task(task).stream():
            match item.data:
                case TextPartDelta(text=text):
                    yield text
                case TurnRestarted():
                    yield VOID_MARK
                case _:
                    pass

    def stop(self, task: str) -> None:
        self._orchestrator.task(task).stop()


def _pool(pool: str, name: str) -> list[str]:
    return ["celery", "-A", f"roboco.workers.{pool}", "worker", "-l", "INFO", "-n", name]


@cache
def _team(prompts: tuple[str, ...]) -> Team:
    members = [{"name": agent, "prompt": prompt} for agent, prompt in zip(AGENTS, prompts, strict=True)]
    return parse_team({"name": "errand", "agents": members, "collaboration_model": {"type": "sequential"}})
