"""turn: one model call by one agent, which becomes one step.

    claim ─► compile ─► model ─► emit, emit, ... ─► append ─► commit ─► doorbell
    (once    (pure)             (fenced; renews     (one       (fenced)
    per attempt)                 the lease)          wins)
                  ▲
                  └── an interruption closes it; what was said until then is the step

A refused claim or emit ends it: somebody else has the turn. A death leaves a lease that ends; then the
turn is tried again, or its step, if it was stored, is taken over.
"""

import json
from collections.abc import Iterator

from roboco.domain.canonical import checked_json, well_formed
from roboco.domain.event import StreamChunk
from roboco.domain.ids import call_id_at, step_id_at
from roboco.domain.memory import WorkingMemory, compile_memory, estimate_tokens
from roboco.domain.offered import offered, schema_of
from roboco.domain.part import ErrorPart, Part, TextPart, ToolCall, ToolCallPart
from roboco.domain.state import TaskState
from roboco.domain.step import TaskStep
from roboco.domain.team import Agent, Team
from roboco.engine import recover
from roboco.engine.ending import Ending
from roboco.engine.engine import Engine
from roboco.engine.insist import insist
from roboco.engine.pending import restart_turn
from roboco.engine.prompt import render_prompt
from roboco.errors import ModelError, UsageError
from roboco.ports import Grip, ModelStream, Reply, Request, RequestedCall, TurnClaim, TurnOrder


def turn(engine: Engine, order: TurnOrder) -> None:
    """Make the turn, unless it is done, taken, or no longer wanted."""
    team = engine.teams.get(order.task_id)
    engine.agenda.hasten(order.task_id, engine.clock.now() + engine.policy.lease)
    ending = Ending(engine)
    with engine.signals.listen(order.task_id, order.epoch, ending.ask):  # what is signalled before is told by the claim
        claim = engine.turns.claim(order, engine.token(), team.tail)
        if claim is not None:
            _make(engine, team, claim, ending)


def _make(engine: Engine, team: Team, claim: TurnClaim, ending: Ending) -> None:
    try:
        memory, request = _request(engine, team, team.agent(claim.task.agent), claim)
    except UsageError as error:
        with engine.keeper.hold(lambda: bool(engine.turns.renew(claim)), lambda: None):
            _commit(engine, claim, _failed(claim, "team", str(error)), {})
        return
    stream = engine.model.stream(request)
    ending.of(stream)
    with engine.keeper.hold(lambda: ending.renew(claim), stream.close):
        _speak(engine, claim, memory, stream, ending)


def _request(engine: Engine, team: Team, agent: Agent, claim: TurnClaim) -> tuple[WorkingMemory, Request]:
    task = claim.task
    prompt = render_prompt(engine.prompts, team, agent, claim.order.task_id, task.first)
    memory = compile_memory(agent, prompt, task.first, task.tail)
    tools = (*engine.toolbox.describe(team, agent), *offered(team, agent, task.state))
    return memory, Request(team.profile(agent), memory.messages, tools)


def _speak(engine: Engine, claim: TurnClaim, memory: WorkingMemory, stream: ModelStream, ending: Ending) -> None:
    texts: list[str] = []
    reply: Reply | None = None
    try:
        reply = _relay(engine, claim, stream, ending, texts)
    except ModelError as error:
        if not ending.asked:
            _break_off(engine, claim, memory, texts, error)
            return
    finally:
        stream.close()
    if reply is not None:
        said = _said(engine, claim, "".join(texts), reply)
        _commit(engine, claim, said, _metadata(memory, reply) | {"chunks": len(texts)})
    elif ending.asked:
        receipt = ending.receipt(claim, stream, len(texts))
        _commit(engine, claim, ((TextPart(text="".join(texts)),), {}), _interrupted(memory, texts, receipt))


def _relay(engine: Engine, claim: TurnClaim, stream: ModelStream, ending: Ending, texts: list[str]) -> Reply | None:
    """Send on what the model says, and add it to `texts`: its reply, or None if the turn is lost or is to end."""
    for piece in _joined(stream):
        if isinstance(piece, Reply):
            return piece
        if ending.asked:
            return None
        texts.append(piece)
        grip = engine.turns.emit(claim, len(texts), _chunk(claim, piece))
        if grip is Grip.LOST:
            return None
        if grip is Grip.ASKED:
            ending.ask()
    return None


def _interrupted(memory: WorkingMemory, texts: list[str], receipt: dict[str, object]) -> dict[str, object]:
    """The metadata of a step that was interrupted; its usage is an estimate, since the model told none."""
    tokens = {"tokens_in": int(memory.receipt["estimated_tokens"]), "tokens_out": estimate_tokens("".join(texts))}
    return {
        "interrupted": True,
        "receipt": receipt,
        "usage": tokens | {"estimated": True},
        "context": memory.receipt,
        "chunks": len(texts),
    }


def _joined(stream: ModelStream) -> Iterator[str | Reply]:
    """The pieces, with characters joined that a model cut in halves (surrogates, as JSON escapes them)."""
    half = ""
    for piece in stream:
        if isinstance(piece, Reply):
            if half:
                yield well_formed(half)
            yield piece
            return
        text = half + piece
        half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        if whole := text.removesuffix(half):
            yield well_formed(whole)


def _break_off(engine: Engine, claim: TurnClaim, memory: WorkingMemory, texts: list[str], error: ModelError) -> None:
    """A call that broke after its first token is tried anew; one that cannot succeed is the turn's step."""
    if texts and error.retryable and claim.order.attempt < engine.policy.attempts:
        restart_turn(engine, claim.order.task_id, claim.task, str(error), claim.token)
        return
    said = _failed(claim, error.code, error.message, "".join(texts))
    _commit(engine, claim, said, {"context": memory.receipt, "chunks": len(texts)})


def _chunk(claim: TurnClaim, text: str) -> StreamChunk:
    order = claim.order
    return StreamChunk(
        task_id=order.task_id,
        step_id=step_id_at(order.task_id, order.seq),
        agent_name=claim.task.agent,
        attempt=order.attempt,
        text=text,
    )


def _failed(claim: TurnClaim, code: str, message: str, text: str = "") -> "_Said":
    error = ErrorPart(code=code, message=f"{claim.task.agent}: {message}")
    return ((TextPart(text=text), error) if text else (error,)), {}


_Said = tuple[tuple[Part, ...], dict[str, str]]


def _said(engine: Engine, claim: TurnClaim, text: str, reply: Reply) -> "_Said":
    """The parts of the step, and why the arguments of some of its calls are not valid."""
    parts: list[Part] = [TextPart(text=text)] if text or not reply.calls else []
    invalid: dict[str, str] = {}
    for index, requested in enumerate(reply.calls):
        call_id = call_id_at(claim.order.task_id, claim.order.seq, index)
        args, mistake = _arguments(requested)
        if mistake := mistake or _unfit(engine, claim.task.state, requested.name, args):
            invalid[call_id] = mistake
        parts.append(ToolCallPart(tool_call=ToolCall(id=call_id, tool_name=well_formed(requested.name), args=args)))
    return tuple(parts), invalid


def _arguments(requested: RequestedCall) -> tuple[dict[str, object], str]:
    found = f"(found {well_formed(requested.arguments)[:200]!r})"
    try:
        args = checked_json(json.loads(requested.arguments or "{}"))
    except (ValueError, RecursionError) as error:
        return {}, f"the arguments are not JSON: {error} {found}"
    if not isinstance(args, dict):
        return {}, f"the arguments are no JSON object {found}"
    return args, ""


def _unfit(engine: Engine, state: TaskState, name: str, args: dict[str, object]) -> str:
    """What the schema of a goal's or client's tool finds wrong with the arguments."""
    schema = schema_of(state, name)
    found = engine.toolbox.mistake(schema, args) if schema is not None else ""
    return f"wrong arguments: {found}" if found else ""


def _metadata(memory: WorkingMemory, reply: Reply) -> dict[str, object]:
    return {
        "model": reply.model,
        "finish_reason": reply.finish_reason,
        "usage": {"tokens_in": reply.tokens_in, "tokens_out": reply.tokens_out},
        "timings": {"first_token_ms": reply.first_token_ms, "duration_ms": reply.duration_ms},
        "context": memory.receipt,
    }


def _commit(engine: Engine, claim: TurnClaim, said: _Said, metadata: dict[str, object]) -> None:
    order, task = claim.order, claim.task
    parts, invalid = said
    metadata = {"attempt": order.attempt, "routing": task.routing} | metadata
    if invalid:
        metadata["invalid_calls"] = invalid
    step = TaskStep(
        step_id=step_id_at(order.task_id, order.seq),
        seq=order.seq,
        agent_name=task.agent,
        parts=parts,
        created_at=engine.now(),
        metadata=metadata,
    ).sealed(task.state.last_digest)
    stored = insist(
        engine,
        lambda: engine.histories.append(order.task_id, step),
        lambda: bool(engine.turns.renew(claim)),
        f"step {step.seq} of task {order.task_id}",
    )
    if stored.digest == step.digest:
        events = recover.events_of(engine, order.task_id, step, task.tail[-1])
        engine.board.commit(order.task_id, order.epoch, step, task.state.after(step), events)
    else:
        recover.catch_up(engine, order.task_id, task)
    engine.dispatcher.advance(order.task_id)
