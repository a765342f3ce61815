"""Teams that use different parts of the engine. Their model scripts depend only on the request."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from roboco.domain.day_budget import TenantBudgets
from roboco.domain.inbox.submission import ImportedMessage
from roboco.domain.paths import summary_path
from roboco.domain.removal.retention import parse_rule
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.team import Team
from roboco.engine.engine import LogLimits, Policy
from roboco.errors import ModelError
from roboco.ports.model import Request
from roboco.ports.tools import ToolContext
from roboco.ports.workspace import StoredFile
from roboco.tools.function_answer import AgentAnswer
from tests.support.memory_ports.clock import ManualClock
from tests.support.memory_ports.controlled import search_script, search_team
from tests.support.memory_ports.journeys import FORMED, PLAN, POLITE, member, own_turns, speaker
from tests.support.memory_ports.model import Script, ScriptedReply, says
from tests.support.memory_ports.notifications import HOOK, SHOP
from tests.support.memory_ports.remote_agent import ModelWithRemote
from tests.support.memory_ports.toolbox import Function, MemoryToolbox
from tests.support.memory_ports.watch import Watch
from tests.support.memory_ports.workspace import MemoryFiles, MemoryHistories
from tests.support.memory_ports.world import Given, World, team_of

LOG_LIMITS = LogLimits(max_events=5, max_bytes=4000, kept_events=2, kept_bytes=2000, waiting_bytes=0)
TASK = "acme:task_1"
POLICY = Policy(
    budgets=TenantBudgets(("acme=/1000000",)),
    retention_rules=(parse_rule("delete=1h"),),
    lease=15.0,
    redelivery_delay=10.0,
    max_attempts=1000,
    log_limits=LOG_LIMITS,
)
"""A policy with so high a limit of attempts that no schedule exhausts it. Logs are archived and trimmed often."""
TAIL_STEPS = 2
"""Steps of a task that Redis keeps, so few that workers read the others from the workspace."""


@dataclass(frozen=True)
class Shape:
    """A team, its model script, its tools, and the options of its submission."""

    team: Team
    script: Script
    functions: Mapping[str, Function] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def world(self, watch: Watch) -> World:
        """Return a new deployment for this shape."""
        model = ModelWithRemote(self.script, watch)
        world = World(Given(model, MemoryToolbox(dict(self.functions)), POLICY), watch)
        world.server.tail_steps = TAIL_STEPS
        world.files = TaskFiles(world.histories, world.clock)
        world.engine = world.process()
        return world


LIST_LAG = 10.0
"""Seconds for which a store may list the files that it had before."""


class TaskFiles(MemoryFiles):
    """Files among which the histories are, too, when a task is removed. Lists of their names may be late.

    `removed` holds the last task.json and history of each removed task, and `changed_ends` each other change of the
    task.json of an ended task than the name of its retry.
    """

    def __init__(self, histories: MemoryHistories, clock: ManualClock) -> None:
        super().__init__()
        self.removed: dict[str, tuple[bytes | None, list[bytes]]] = {}
        self.changed_ends: list[tuple[bytes, bytes]] = []
        self._histories = histories
        self._clock = clock
        self._listed: dict[str, bytes] = {}
        self._listed_until = 0.0

    def replace(self, path: str, data: bytes, version: str | None, durable: bool = True) -> bool:
        before = self.held.get(path)
        stored = super().replace(path, data, version, durable)
        if before is not None and stored and path.endswith("/task.json"):
            end, now = TaskSummary.model_validate_json(before), TaskSummary.model_validate_json(data)
            if end.status.ended and now not in (
                end,
                end.model_copy(update={"retried_as": end.retried_as or now.retried_as}),
            ):
                self.changed_ends.append((before, data))
        return stored

    def freeze_lists(self) -> None:
        """List the files of this moment for a while, whatever is stored and removed meanwhile."""
        self._listed, self._listed_until = dict(self.held), self._clock.now() + LIST_LAG

    def names(self, folder: str) -> list[str]:
        return self._as_listed().names(folder)

    def names_after(self, folder: str, after: str, limit: int) -> list[str]:
        return self._as_listed().names_after(folder, after, limit)

    def _as_listed(self) -> MemoryFiles:
        listed = MemoryFiles()
        listed.held = self._listed if self._clock.now() < self._listed_until else self.held
        return listed

    def tree(self, folder: str) -> Iterator[StoredFile]:
        lines = self._histories.held.get(folder.removesuffix("/"))
        own = [StoredFile(f"{folder}history.jsonl", 1)] if lines else []
        return iter([*own, *super().tree(folder)])

    def delete_tree(self, folder: str, limit: int) -> int:
        removed, task_id = len(list(islice(self.tree(folder), limit))), folder.removesuffix("/")
        lines = self._histories.held.pop(task_id, [])
        _, known = self.removed.get(task_id, (None, []))
        if len(lines) > len(known):  # a late client may have stored the first step of a removed task again
            self.removed[task_id] = (self.held.get(summary_path(task_id)), lines)
        super().delete_tree(folder, limit)
        return removed


def _count_turns(request: Request) -> ScriptedReply:
    return says(f"{speaker(request)} {own_turns(request)}")


def _refuse_some(request: Request) -> ScriptedReply:
    """Fail for good after messages with an even number, such as "send2"."""
    if str(request.messages[-1]["content"])[-1:] in "2468":
        return ScriptedReply(error=ModelError("model", "no", retryable=False))
    return _count_turns(request)


def _tools_script(request: Request) -> ScriptedReply:
    if speaker(request) != "lead":
        return says("closed")
    if own_turns(request) == 0:
        return says("", ("add", {"a": 1}), ("pay", {"to": 1}))
    return says("so", ("pay", {"to": 2}), ("handoff", {"destination_agent": "closer", "reason": "done"}))


def _handing_script(request: Request) -> ScriptedReply:
    if speaker(request) == "one" and own_turns(request) == 0:
        return says("", ("handoff", {"destination_agent": "two", "reason": "yours"}))
    return _count_turns(request)


def _outside_script(request: Request) -> ScriptedReply:
    if own_turns(request) == 0:
        return says("", ("client_ask", {"q": 1}), ("pay", {"to": 5}), ("add", {"a": 1}))
    return says("done")


def _shop_script(request: Request) -> ScriptedReply:
    if own_turns(request) == 0:
        return says("", ("parse", {"file": "a"}), ("charge", {"file": "b"}), ("add", {"a": 1}))
    return says("again", ("parse", {"file": "c"})) if own_turns(request) == 1 else says("done")


def _delegating_script(request: Request) -> ScriptedReply:
    if speaker(request) != "lead":
        return says(f"{speaker(request)} did it")
    if own_turns(request) > 0:
        return says("all together")
    calls = [("delegate", {"team": name, "prompt": name}) for name in ("helpers", "pair")]
    return says("you two", *calls)


def _delegating_afar(request: Request) -> ScriptedReply:
    if own_turns(request) > 0:
        return says("it has said so")
    return says("", ("delegate", {"team": "a2a:far", "prompt": "act"}))


FAR = {"model": "far", "provider": "a2a", "base_url": "https://far.example/a2a"}
_ADD = {"name": "add", "function": "shop.sums:add", "effect": "pure"}
_PAY = {"name": "pay", "function": "shop.bank:pay", "effect": "irreversible"}
_FUNCTIONS: dict[str, Function] = {"add": lambda args, context: args["a"] + 1, "pay": lambda args, context: "paid"}
_PARSE = {"name": "parse", "task": "docs.parse", "effect": "idempotent", "description": "parses", "timeout": 3600}
_CHARGE = {"name": "charge", "task": "docs.charge", "description": "charges", "timeout": 120, "on_stop": "revoke"}
_ASK = {"name": "client_ask", "description": "asks", "input_schema": {"type": "object"}}


def _triage(args: dict[str, Any], context: ToolContext) -> object:
    context.update_state(asked=len(context.messages))
    return AgentAnswer("to the booker", handoff="booker")


def _booker(args: dict[str, Any], context: ToolContext) -> object:
    paid = context.messages[-1]["role"] == "tool"
    return "booked" if paid else AgentAnswer(calls=[("pay", {"to": len(context.messages)})])


SHAPES: dict[str, Shape] = {
    "manual": Shape(team_of(agents=[member("helper")], collaboration_model={"type": "manual"}), _count_turns),
    "handing": Shape(
        team_of(agents=[member("one", handoffs=["two"]), member("two")], collaboration_model={"type": "manual"}),
        _handing_script,
    ),
    "sequential": Shape(team_of(agents=[member("one"), member("two")]), _count_turns, options={"notify": [HOOK]}),
    "tools": Shape(
        team_of(
            agents=[member("lead", tools=["add", "pay"], handoffs=["closer"]), member("closer")],
            tools=[_ADD, _PAY],
            collaboration_model={"type": "graph", "routing_graph": {"lead": ["USER"], "closer": ["END"]}},
        ),
        _tools_script,
        _FUNCTIONS,
    ),
    "outside": Shape(
        team_of(
            agents=[member("lead", tools=["add", "pay"])],
            tools=[_ADD, _PAY | {"approval": "required", "expires": 300, "remind": 50}],
        ),
        _outside_script,
        _FUNCTIONS,
        {"client_tools": [_ASK], "notify": [SHOP, HOOK]},
    ),
    "shop": Shape(
        team_of(agents=[member("lead", tools=["add", "parse", "charge"])], tools=[_ADD, _PARSE, _CHARGE]),
        _shop_script,
        _FUNCTIONS,
    ),
    "delegating": Shape(
        team_of(
            agents=[member("lead", delegates=["helpers", "pair"])],
            teams={
                "helpers": {"name": "helpers", "agents": [member("one")], "collaboration_model": {"type": "manual"}},
                "pair": {"name": "pair", "agents": [member("one"), member("two")]},
            },
        ),
        _delegating_script,
    ),
    "remote": Shape(
        team_of(
            agents=[member("lead", delegates=["a2a:far"]), member("far", model="far")],
            models={"own": {"model": "m", "default": True}, "far": FAR},
        ),
        _delegating_afar,
    ),
    "functions": Shape(
        team_of(
            agents=[
                {"name": "triage", "function": "shop.agents:triage", "effect": "pure", "handoffs": ["booker"]},
                {"name": "booker", "function": "shop.agents:booker", "tools": ["pay"]},
                member("closer"),
            ],
            tools=[_PAY],
            collaboration_model={
                "type": "graph",
                "routing_graph": {"triage": ["closer"], "booker": ["closer"], "closer": ["USER"]},
            },
        ),
        _count_turns,
        _FUNCTIONS | {"triage": _triage, "booker": _booker},
    ),
    "mapping": Shape(search_team(parallel=1), search_script),
    "limited": Shape(
        team_of(
            agents=[member("one")],
            collaboration_model={"type": "sequential", "rounds": 3},
            limits={"max_steps": 3, "at_limit": "pause"},
        ),
        _count_turns,
    ),
    "conversation": Shape(
        team_of(agents=[member("one"), member("two")]), _refuse_some, options={"conversation": True, "notify": [HOOK]}
    ),
    "formed": Shape(
        FORMED.team,
        FORMED.script,
        options={"conversation": True, "answer_form": {"schema": PLAN, "instructions": "Be brief."}},
    ),
    "imported": Shape(
        team_of(agents=[member("one"), member("two")], collaboration_model={"type": "manual"}),
        _count_turns,
        options={
            "history": [
                ImportedMessage(role="user", text="before"),
                ImportedMessage(role="assistant", text="the answer", agent="two"),
                ImportedMessage(role="assistant", text="and more"),
            ],
        },
    ),
    "retried": Shape(
        team_of(
            agents=[member("one"), member("two")],
            collaboration_model={"type": "sequential", "rounds": 2},
            limits={"max_steps": 3, "at_limit": "end"},
        ),
        _count_turns,
        options={"notify": [HOOK | {"on": ["failed", "completed", "cancelled"]}]},
    ),
    "guarded": Shape(
        team_of(
            agents=[member("one"), member("two")],
            tools=[POLITE, POLITE | {"name": "slow", "function": "shop.guards:slow"}],
            guards={"input": ["polite", "slow"], "on_refusal": {"answer": "no"}},
        ),
        _count_turns,
        {"polite": lambda args, context: args["text"][-1:] not in "48", "slow": lambda args, context: True},
        {"conversation": True, "notify": [HOOK]},
    ),
    "answers": Shape(
        team_of(
            agents=[member("one"), member("two")],
            tools=[POLITE, POLITE | {"name": "slow", "function": "shop.guards:slow"}],
            guards={"input": ["slow"], "output": ["polite", "slow"], "on_refusal": {"answer": "no"}},
        ),
        _count_turns,
        {"polite": lambda args, context: args["text"][-1:] not in "48", "slow": lambda args, context: True},
        {"conversation": True, "notify": [HOOK]},
    ),
    "rated": Shape(
        team_of(agents=[member("one"), member("two")], models={"m": {"model": "m", "requests_per_minute": 1}}),
        _count_turns,
    ),
}
"""Every shape by its name."""
