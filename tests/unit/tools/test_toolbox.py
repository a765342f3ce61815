"""FunctionToolbox: the tools that a process can describe and run; every failure of a tool is in its outcome."""

import base64
import hashlib
import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from roboco.cli.commands.demo import shipped_team
from roboco.domain.decision.action import Route
from roboco.domain.history.part import Media, ToolCall, ToolOutcome
from roboco.domain.schema import Effect
from roboco.domain.team.team import Team
from roboco.domain.team.tool_listing import ListedTool, Listing
from roboco.domain.team.tool_spec import ServerTool, ToolSpec
from roboco.domain.team.validation import validate_team
from roboco.engine.record.call_failures import call_failures
from roboco.errors import TransientError, UsageError
from roboco.ports.file import File
from roboco.ports.tools import ToolContext
from roboco.tools.function_loader import FunctionLoader
from roboco.tools.function_tool import tool
from roboco.tools.toolbox import FunctionToolbox
from roboco.workspace.artifacts.store import read_artifact
from roboco.workspace.artifacts.tool_files import EXCERPT_BYTES, MAX_RESULT_BYTES
from tests.support import tenant_credentials
from tests.support.memory_ports.workspace import MemoryFiles, MemoryHistories
from tests.support.toolboxes import toolbox_of
from tests.unit.domain.steps import TASK, steps_of

CANARY = "canary-0123456789"
THIS_MODULE = __name__
CONTEXT = ToolContext(TASK, "one", "tc_0123456789abcdef", f"{TASK}/tc_1", 1)


def refuse_seven(value: int) -> int:
    """Raise KeyError for seven, as a faulty validator of a user may."""
    if value == 7:
        raise KeyError(f"TOKEN={value}")
    return value


Choosy = Annotated[int, AfterValidator(refuse_seven)]


class TimeLimitReached(Exception):
    """The exception that a pool raises in a tool when its time limit is over."""


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def call_crm(context: ToolContext, name: str = "crm") -> dict[str, str]:
    """Call a server with the tenant's credential, and return what it has received."""
    secret = context.credential(name)
    context.update_state(seen=f"Bearer {secret}")
    return {"customer": context.tenant, "authorization": f"Bearer {secret}", "name": name}


@tool
def leak_crm(context: ToolContext, how: str = "") -> File:
    """Show the tenant's credential in this way."""
    secret = context.credential("crm")
    if how:
        raise {"usage": UsageError, "transient": TransientError}[how](f"refused {secret}")
    return File(f"{secret}.txt", "a text")


def find_leaked(args: dict[str, Any], key: str) -> str:
    """Return the credential as the found result."""
    return f"found {CANARY}"


@tool(effect="irreversible", verify=find_leaked)
def lose_crm() -> str:
    """Have a `verify` that shows a credential."""
    raise AssertionError


class EchoServers:
    """MCP servers that repeat the header that they get."""

    def call(self, *args: object) -> tuple[Any, tuple[Media, ...]]:
        """Return the secret in the structured content and in a file."""
        shown = {"structured": {"authorization": f"Bearer {CANARY}"}}
        return [shown, {"type": "resource"}], (Media(1, "resource", "text/plain", f"a {CANARY}".encode()),)


@tool(effect="irreversible", approval="required")
def refund(amount: int) -> int:
    """Refund an amount."""
    raise AssertionError(amount)


@tool
def give(what: str) -> Any:
    """Return the value, or raise the exception, that a test asks for."""
    exceptions: dict[str, Exception] = {
        "error": ValueError("went wrong"),
        "group": ExceptionGroup("at once", [KeyError("a"), ValueError("b")]),
        "surrogate": OSError("no file 'a\udcff'"),
        "usage": UsageError("asked for the wrong thing"),
        "time": TimeLimitReached(),
        "transient": TransientError("the store is away"),
        "long": ValueError("x" * 100_000),
    }
    if what in exceptions:
        raise exceptions[what]
    values: dict[str, Any] = {
        "object": object(),
        "text": "ü" * MAX_RESULT_BYTES,
        "json": {"rows": list(range(MAX_RESULT_BYTES))},
    }
    return values[what]


def verify_payment(args: dict[str, Any], key: str) -> Any:
    """Return the effect of the call that its argument asks for."""
    assert key == CONTEXT.idempotency_key
    return give(args["what"]) if args["what"] not in VERIFIED_EFFECTS else VERIFIED_EFFECTS[args["what"]]


VERIFIED_EFFECTS: dict[str, Any] = {"yes": True, "no": False, "none": None, "receipt": {"id": 7}}


@tool(verify=verify_payment)
def pay(what: str) -> str:
    """Pay."""
    raise TimeLimitReached


def unmarked() -> str:
    """Not a tool."""
    return "x"


CALLS: list[str] = []


@tool
def flaky(errors: list[str], context: ToolContext) -> str:
    """Raise the errors one after the other, then return."""
    CALLS.append(context.call_id)
    context.update_state(**{f"call{len(CALLS)}": len(CALLS)})
    match errors[len(CALLS) - 1 :]:
        case ["refused", *_]:
            raise ConnectionRefusedError("no route")
        case ["json", *_]:
            json.loads("{")
        case ["other", *_]:
            raise KeyError("x")
        case _:
            pass
    return "done"


def my_router(team: Team, history: object) -> Route:
    return Route("END", "mine", "r", "why")


NO_FUNCTION = 5

TEAM = validate_team(
    {
        "name": "desk",
        "agents": [
            {
                "name": "one",
                "prompt": "hi",
                "tools": ["add", "memory_search", "artifact_read", "artifact_write", "artifact_list"],
                "handoffs": ["two"],
            },
            {"name": "two", "description": "closes", "prompt": "hi"},
        ],
        "tools": [
            {"name": "add", "function": f"{THIS_MODULE}:add", "description": "adds", "timeout": 7},
            {"name": "give", "function": f"{THIS_MODULE}:give", "effect": "pure"},
            {"name": "pay", "function": f"{THIS_MODULE}:pay", "on_unknown": "ask"},
            {"name": "blind", "function": f"{THIS_MODULE}:give"},
            {
                "name": "flaky",
                "function": f"{THIS_MODULE}:flaky",
                "effect": "pure",
                "retry": {"on": ["ConnectionError", "json.decoder.JSONDecodeError"], "times": 2, "delay": 0},
            },
        ],
    }
)


FOLDER = tempfile.TemporaryDirectory(prefix="roboco-toolbox-")


def toolbox(files: MemoryFiles | None = None, *modules: str) -> FunctionToolbox:
    folder = Path(tempfile.mkdtemp(dir=FOLDER.name))
    return toolbox_of(files or MemoryFiles(), histories(), modules or (THIS_MODULE,), folder, TimeLimitReached)


def histories() -> MemoryHistories:
    made = MemoryHistories()
    for step in steps_of(("user", "the sea"), ("one", "the harbour")):
        made.append(TASK, step)
    return made


def run(name: str, files: MemoryFiles | None = None, /, **args: Any) -> ToolOutcome:
    """Return the outcome of a call after its way through JSON."""
    call = ToolCall(id=CONTEXT.call_id, tool_name=name, args=args)
    box = toolbox(files)
    outcome = box.offload_large(box.run(TEAM, call, TEAM.tool(name), CONTEXT), CONTEXT)
    assert outcome.result.tool_call_id == CONTEXT.call_id
    return ToolOutcome.model_validate_json(outcome.model_dump_json())


def test_the_tools_of_an_agent_are_described() -> None:
    schemas = {one["function"]["name"]: one["function"] for one in toolbox().describe(TEAM, TEAM.agent("one"), {})}
    assert set(schemas) == set(TEAM.agent("one").tools)
    assert schemas["add"]["description"] == "adds"
    assert schemas["add"]["parameters"]["required"] == ["a", "b"]
    assert "context" not in json.dumps(schemas)
    assert toolbox().describe(TEAM, TEAM.agent("two"), {}) == ()


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("add", {"a": 1}, "wrong arguments: b: Field required"),
        ("add", {"a": 1, "b": 2, "c": 3}, "parameters are: a, b"),
        ("give", {"what": "error"}, "ValueError: went wrong"),
        ("give", {"what": "group"}, "ExceptionGroup: at once (2 sub-exceptions); KeyError: 'a'; ValueError: b"),
        ("give", {"what": "surrogate"}, "OSError: no file"),
        ("give", {"what": "usage"}, "asked for the wrong thing"),
        ("give", {"what": "time"}, "tool 'give' did not end within its 60 s"),
        ("memory_search", {}, "query: Field required"),
        ("artifact_read", {"uri": "nothing"}, "no artifact 'nothing' in this task; artifacts: none"),
        ("artifact_read", {"uri": "../team.json"}, "not allowed"),
        ("artifact_write", {"name": "../x", "content": ""}, "not allowed"),
    ],
)
def test_every_failure_of_a_call_is_in_its_outcome(name: str, args: dict[str, Any], expected: str) -> None:
    outcome = run(name, **args)
    assert outcome.result.is_error
    assert outcome.result.result is None
    assert expected in str(outcome.result.error)


@pytest.mark.parametrize(
    ("errors", "runs", "result"),
    [
        ([], 1, "done"),
        (["refused", "json"], 3, "done"),
        (["refused", "refused", "refused"], 3, "ConnectionRefusedError: no route"),
        (["refused", "other"], 2, "KeyError: 'x'"),
    ],
)
def test_a_function_runs_again_after_the_exceptions_that_its_team_names(
    errors: list[str], runs: int, result: str
) -> None:
    CALLS.clear()
    context = replace(CONTEXT, state_changes={})
    call = ToolCall(id=CONTEXT.call_id, tool_name="flaky", args={"errors": errors})
    outcome = toolbox().run(TEAM, call, TEAM.tool("flaky"), context)
    assert (len(CALLS), outcome.result.error or outcome.result.result) == (runs, result)
    assert len(outcome.failed_before) == runs - 1
    assert outcome.state == ({} if outcome.result.is_error else {f"call{runs}": runs})


@pytest.mark.parametrize(("delay", "timeout"), [(0.0, 1e-9), (1.0, 0.05)])
def test_a_function_does_not_run_again_after_its_time(delay: float, timeout: float) -> None:
    """A library may wrap the exception with which the pool ends a tool; and no delay goes beyond the time limit."""
    CALLS.clear()
    spec = TEAM.tool("flaky")
    assert isinstance(spec, ToolSpec)
    assert spec.retry is not None
    late = spec.model_copy(update={"timeout": timeout, "retry": spec.retry.model_copy(update={"delay": delay})})
    call = ToolCall(id=CONTEXT.call_id, tool_name="flaky", args={"errors": ["refused"]})
    assert toolbox().run(TEAM, call, late, replace(CONTEXT, state_changes={})).result.is_error
    assert len(CALLS) == 1


def test_frames_of_an_exception_are_kept_and_logged_but_not_in_the_outcome(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    outcome = run("give", files, what="error")
    assert outcome.result.error == "ValueError: went wrong"
    assert "File" not in outcome.model_dump_json()
    [(call_id, failure)] = call_failures(files, TASK).items()
    assert (call_id, failure.tool_name, failure.attempt) == (CONTEXT.call_id, "give", 1)
    assert failure.lines[-2:] == ("    raise exceptions[what]", "ValueError: went wrong")
    named = f"tool 'give' of task {TASK}, call {CONTEXT.call_id}, attempt 1: the tool raised"
    [line] = [record.getMessage() for record in caplog.records if record.getMessage().startswith(named)]
    assert line.endswith("\n      raise exceptions[what]\n  ValueError: went wrong")


@pytest.mark.parametrize(("name", "on_unknown"), [("pay", "ask"), ("blind", "tell")])
def test_the_outcome_of_an_irreversible_call_that_timed_out_is_unknown(name: str, on_unknown: str) -> None:
    outcome = run(name, what="time")
    assert outcome.unknown == on_unknown
    assert str(outcome.result.error).startswith(f"outcome unknown: tool '{name}' did not end within its 60 s")


@pytest.mark.parametrize(
    ("what", "result", "is_error"),
    [
        ("yes", "the call had its effect", False),
        ("receipt", {"id": 7}, False),
        ("no", None, True),
    ],
)
def test_a_tool_verifies_the_effect_of_a_lost_call_or_leaves_it_unknown(
    what: str, result: object, is_error: bool
) -> None:
    outcome = verify_call("pay", what)
    assert outcome is not None
    assert (outcome.result.result, outcome.result.is_error, outcome.unknown) == (result, is_error, "")
    assert not is_error or "lost before it had its effect" in str(outcome.result.error)
    for name, unknown in (("pay", "none"), ("pay", "error"), ("pay", "object"), ("pay", "time"), ("blind", "yes")):
        assert verify_call(name, unknown) is None
    with pytest.raises(TransientError):
        verify_call("pay", "transient")


def verify_call(name: str, what: str) -> ToolOutcome | None:
    """Return the result of the tool's `verify` for a lost call, or None."""
    call = ToolCall(id=CONTEXT.call_id, tool_name=name, args={"what": what})
    spec = TEAM.tool(name)
    assert spec is not None
    return toolbox().verify(call, spec, CONTEXT)


def test_a_large_result_that_cannot_be_stored_is_truncated() -> None:
    box = toolbox()
    whole = box.run(
        TEAM, ToolCall(id=CONTEXT.call_id, tool_name="give", args={"what": "text"}), TEAM.tool("give"), CONTEXT
    )
    cut = box.truncate_large(whole)
    assert str(cut.result.result).endswith("the rest could not be stored]")
    assert len(str(cut.result.result).encode()) < EXCERPT_BYTES + 100
    assert box.truncate_large(cut) == cut


@pytest.mark.parametrize(
    ("function", "modules", "expected"),
    [
        (f"{THIS_MODULE}:add", ("other",), f"module '{THIS_MODULE}' is not in ROBOCO_TOOL_MODULES, which names other"),
        ("os:system", (THIS_MODULE,), "module 'os' is not in ROBOCO_TOOL_MODULES"),
        (f"{THIS_MODULE}:unmarked", (THIS_MODULE,), "is not marked with @tool"),
        (f"{THIS_MODULE}:nothing", (THIS_MODULE,), "cannot be imported"),
        (f"{THIS_MODULE}:NO_FUNCTION", (THIS_MODULE,), "is not a function"),
        ("no_such_module:x", ("no_such_module",), "cannot be imported"),
        ("tests.support.ending_module:x", ("tests.support.ending_module",), r"ends the process \(SystemExit"),
    ],
)
def test_only_marked_functions_of_allowed_modules_are_tools(
    function: str, modules: tuple[str, ...], expected: str
) -> None:
    box = toolbox(None, *modules)
    with pytest.raises(UsageError, match=expected):
        FunctionLoader(modules).tool(function)
    call = ToolCall(id="tc_1", tool_name="x", args={})
    outcome = box.run(TEAM, call, ToolSpec(name="x", function=function), CONTEXT)
    assert outcome.result.is_error
    assert re.search(expected, str(outcome.result.error))


def test_the_function_of_the_demo_is_a_tool_wherever_workers_run() -> None:
    """`roboco demo` is tried in deployments that allow no module, or other ones."""
    for spec in shipped_team("demo").function_tools:
        FunctionLoader(()).tool(spec.function)  # raises NotRunnable if it is not allowed


def test_only_functions_of_allowed_modules_are_routers() -> None:
    assert toolbox().router(f"{THIS_MODULE}:my_router") is my_router
    with pytest.raises(UsageError, match="not in ROBOCO_TOOL_MODULES"):
        toolbox().router("os:system")
    with pytest.raises(UsageError, match="is a tool, so it cannot be a router"):
        toolbox().router(f"{THIS_MODULE}:add")
    with pytest.raises(UsageError, match="is of module 'pathlib', so it cannot be a router"):
        toolbox().router(f"{THIS_MODULE}:Path")
    with pytest.raises(UsageError, match="is not a function"):
        toolbox().router(f"{THIS_MODULE}:NO_FUNCTION")


@pytest.mark.parametrize(("what", "mime_type"), [("text", "text/plain"), ("json", "application/json")])
def test_a_larger_result_becomes_an_artifact(what: str, mime_type: str) -> None:
    files = MemoryFiles()
    outcome = run("give", files, what=what)
    [artifact] = outcome.artifacts
    stored = read_artifact(files, TASK, artifact.uri)
    assert artifact.mime_type == mime_type
    assert artifact.size == len(stored) > MAX_RESULT_BYTES
    kept = outcome.result.result
    assert kept.encode()[: EXCERPT_BYTES - 4] == stored[: EXCERPT_BYTES - 4]
    assert len(kept.encode()) < EXCERPT_BYTES + 200
    assert artifact.uri in kept
    assert (
        json.loads(stored)["rows"][-1] == MAX_RESULT_BYTES - 1
        if what == "json"
        else stored.decode() == "ü" * MAX_RESULT_BYTES
    )


def test_memory_search_searches_the_whole_history() -> None:
    [hit] = run("memory_search", query="harbour").result.result
    assert (hit["seq"], hit["agent_name"], hit["snippet"]) == (1, "one", "the harbour")
    assert len(run("memory_search", query="the").result.result) == 2
    assert len(run("memory_search", query="the", limit=1).result.result) == 1


def test_artifacts_are_written_listed_and_read() -> None:
    files = MemoryFiles()
    written = run("artifact_write", files, name="a.md", content="Grüße und mehr", mime_type="text/markdown")
    assert written.result.result["uri"] == "file://artifacts/a.md"
    assert [(one.name, one.mime_type) for one in written.artifacts] == [("a.md", "text/markdown")]
    [listed] = run("artifact_list", files).result.result
    assert listed == {
        "uri": "file://artifacts/a.md",
        "mime_type": "text/markdown",
        "size": 16,
        "sha256": hashlib.sha256("Grüße und mehr".encode()).hexdigest(),
        "base": "a.md",
        "version": 1,
        "step_id": "",
    }
    read = run("artifact_read", files, uri="a.md", offset=2, limit=4).result.result
    assert read == {"text": "üße ", "offset": 2, "more": True, "total_bytes": 16}
    assert run("artifact_read", files, uri="file://artifacts/a.md").result.result["text"] == "Grüße und mehr"


def test_writes_of_one_name_in_a_step_have_the_versions_of_their_calls() -> None:
    files = MemoryFiles()
    calls: list[dict[str, Any]] = [{"name": "a.md", "content": f"text {number}"} for number in range(3)]
    for number in (2, 0, 1):
        earlier: tuple[dict[str, Any], ...] = (
            {"name": 7},
            {"name": "a.md", "content": 7},
            {"name": "b.md", "content": "x"},
            *calls[:number],
        )
        call = ToolCall(id=CONTEXT.call_id, tool_name="artifact_write", args=calls[number])
        outcome = toolbox(files).run(TEAM, call, None, replace(CONTEXT, earlier=earlier))
        assert outcome.result.result["version"] == number + 1
    assert files.get(f"{TASK}/artifacts/a-3.md") == b"text 2"
    assert files.names(f"{TASK}/artifacts/") == ["a-2.md", "a-3.md", "a.md"]


def test_a_binary_artifact_is_read_in_base64_by_artifact_read() -> None:
    files = MemoryFiles()
    files.put(f"{TASK}/artifacts/a.bin", data := bytes(range(256)))
    for args, expected in (({}, data), ({"offset": 3, "limit": 4}, data[3:6]), ({"offset": 999}, b"")):
        part = run("artifact_read", files, uri="a.bin", **args).result.result
        assert (base64.b64decode(part["base64"]), part["total_bytes"]) == (expected, 256)
        assert part["more"] is (expected == data[3:6])


@pytest.mark.parametrize(
    ("declared", "refusal"),
    [
        ({"effect": "pure", "approval": "required"}, "declares effect: pure, and its function demands effect: irrev"),
        ({"effect": "idempotent", "approval": "required"}, "declares effect: idempotent"),
        ({}, "declares no approval of each call, and its function demands approval: required"),
        ({"approval": {"argument": "amount", "above": 5}}, "declares no approval of each call"),
        ({"approval": "required"}, ""),
    ],
)
def test_a_team_may_only_tighten_what_a_function_demands(declared: dict[str, Any], refusal: str) -> None:
    function = {"name": "refund", "function": f"{THIS_MODULE}:refund", **declared}
    team = validate_team(
        {"name": "t", "agents": [{"name": "a", "prompt": "p", "tools": ["refund"]}], "tools": [function]}
    )
    if not refusal:
        assert toolbox().describe(team, team.agents[0], {})
        return
    call = ToolCall(id="tc_1", tool_name="refund", args={"amount": 1})
    outcome = toolbox().run(team, call, team.tool("refund"), CONTEXT)
    assert outcome.result.is_error
    assert refusal in str(outcome.result.error)
    with pytest.raises(UsageError, match=refusal):
        toolbox().describe(team, team.agents[0], {})


def box_with(monkeypatch: pytest.MonkeyPatch, **values: object) -> FunctionToolbox:
    """Return a toolbox that knows these credentials of acme."""
    known = tenant_credentials.VALUES | {("acme", name): value for name, value in values.items()}
    monkeypatch.setattr(tenant_credentials, "VALUES", known)
    function = f"{tenant_credentials.__name__}:find"
    return toolbox_of(MemoryFiles(), MemoryHistories(), (THIS_MODULE,), Path(tempfile.mkdtemp()), credentials=function)


def outcome_of(
    box: FunctionToolbox, called: str, /, tenant: str = "acme", effect: Effect = "pure", **args: str
) -> ToolOutcome:
    """Return the outcome of a call of the function of this module."""
    spec = ToolSpec(name=called, function=f"{THIS_MODULE}:{called}", effect=effect)
    context = replace(CONTEXT, task_id=f"{tenant}:t1")
    return box.run(shipped_team("demo"), ToolCall(id="tc_1", tool_name=called, args=args), spec, context)


def test_tool_gets_the_credential_of_the_tasks_tenant_and_shows_it_to_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for tenant in ("acme", "globex"):
        outcome = outcome_of(box_with(monkeypatch), "call_crm", tenant=tenant)
        assert outcome.result.result == {"customer": tenant, "authorization": "Bearer ***", "name": "crm"}
        assert outcome.state == {"seen": "Bearer ***"}
    assert tenant_credentials.ASKED[-2:] == [("acme", "crm"), ("globex", "crm")]


def test_errors_names_and_found_results_of_a_tool_show_no_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    box, context = box_with(monkeypatch, crm=CANARY), replace(CONTEXT, task_id="acme:t1")
    assert outcome_of(box, "leak_crm", how="usage").result.error == "refused ***"
    with pytest.raises(TransientError, match=r"^refused \*\*\*$") as raised:
        outcome_of(box, "leak_crm", how="transient")
    assert raised.value.__suppress_context__
    outcome = box.offload_large(outcome_of(box, "leak_crm"), context)
    assert [one.name for one in outcome.artifacts] == ["___.txt"]
    assert CANARY not in repr(outcome)
    lost = ToolSpec(name="lose_crm", function=f"{THIS_MODULE}:lose_crm", effect="irreversible")
    found = box.verify(ToolCall(id="tc_2", tool_name="lose_crm", args={}), lost, context)
    assert found is not None
    assert found.result.result == "found ***"


def test_result_of_a_server_shows_no_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    box, context = box_with(monkeypatch, header=f"Bearer {CANARY}"), replace(CONTEXT, task_id="acme:t1")
    monkeypatch.setattr(box, "_servers", EchoServers())
    box._credentials.get("acme", "header")
    fields = {"name": "t", "agents": [{"name": "one", "prompt": "x"}], "mcp_servers": {"crm": {"url": "https://h"}}}
    spec = ServerTool(name="crm_x", server="crm", remote="x")
    call = ToolCall(id="tc_1", tool_name="crm_x", args={})
    outcome = box.run(Team.model_validate(fields), call, spec, context)
    assert outcome.result.result == [{"structured": {"authorization": "***"}}, {"type": "resource"}]
    assert [one.data for one in outcome.media] == [b"a ***"]


def test_tool_without_a_credential_ends_with_an_error_for_its_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("other", "raised KeyError"), ("a/b", "no name")):
        outcome = outcome_of(box_with(monkeypatch), "call_crm", name=name)
        assert outcome.result.is_error
        assert text in str(outcome.result.error)


def test_tool_whose_credential_may_come_later_runs_again_only_if_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TransientError, match="credential 'crm' of tenant 'acme': the vault answers 503"):
        outcome_of(box_with(monkeypatch, crm=tenant_credentials.busy()), "call_crm", effect="idempotent")
    outcome = outcome_of(box_with(monkeypatch, crm=tenant_credentials.busy()), "call_crm", effect="irreversible")
    assert not outcome.unknown
    assert "call the tool again later" in str(outcome.result.error)


@tool
def choosy(amount: Choosy) -> int:
    """Return the amount."""
    raise AssertionError(amount)


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("add", {"a": 1, "b": "2"}, ""),
        ("add", {f"x{n}": n for n in range(999)}, "; and 996 mistakes more; parameters are: a, b"),
        ("choosy", {"amount": 7}, "KeyError: "),
        ("lost", {}, ""),
    ],
)
def test_the_arguments_of_a_call_are_checked_without_running_it(name: str, args: dict[str, Any], expected: str) -> None:
    team = TEAM.model_copy(
        update={
            "tools": (
                *TEAM.tools,
                ToolSpec(name="choosy", function=f"{THIS_MODULE}:choosy"),
                ToolSpec(name="lost", function="elsewhere:lost"),
            )
        }
    )
    found = toolbox().call_error(team, ToolCall(id=CONTEXT.call_id, tool_name=name, args=args), {})
    assert found == expected or (expected and expected in found)
    assert len(found) < 1000


def test_the_arguments_of_an_mcp_tool_are_checked_with_its_listed_schema() -> None:
    team = validate_team(
        {
            "name": "t",
            "agents": [{"name": "one", "prompt": "p", "tools": ["shop_buy"]}],
            "mcp_servers": {"shop": {"command": ["shop"], "tools": {"buy": {"approval": "required"}}}},
            "models": {"default": {"model": "m"}},
        }
    )
    listed = ListedTool(description="d", input_schema={"type": "object", "required": ["what"]}, effect="pure")
    listings = {"shop": Listing(tools={"buy": listed})}
    call = ToolCall(id=CONTEXT.call_id, tool_name="shop_buy", args={})
    assert toolbox().call_error(team, call, listings) == 'wrong arguments: $: "what" is a required property'
    assert toolbox().call_error(team, call.model_copy(update={"args": {"what": 1}}), listings) == ""
    assert toolbox().call_error(team, call, {}) == ""
