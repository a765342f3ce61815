"""Facts: the fate of an errand whose worker is killed in the middle of a turn, or which is stopped there.

Two workers are ready when the first one, which runs the errand, is killed with SIGKILL. If the errand does not continue
within a timeout, the bench starts the worker again, as a supervisor does. If that does not help, it submits the errand
once more.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench.harness.bench_stack import new_name
from tests.bench.peers.peer import VOID_MARK, Peer
from tests.bench.processes.model import ENDLESS_CHUNKS
from tests.support.servers.model_server import ModelServer, Reply, Request, RequestRecord
from tests.support.stack import until

TOKENS, ALL_TOKENS = 5, 15
"""Tokens of each agent, and of all agents together; the first reply of the second agent does not end."""
PROMPTS = ("research", "write", "review")
TOKENS_BEFORE_KILL = TOKENS + 20
"""Minimum number of tokens at a reader before the kill: the second agent streams."""
TIMEOUT, SHORT_TIMEOUT = 30.0, 5.0
"""Seconds for events that must happen, and for those that need not: the effect of a stop, a late reader's tokens."""


@dataclass(frozen=True)
class Fact:
    """The behaviour of one peer."""

    peer: str
    recovery: str
    """How the errand continues after the kill."""
    calls: tuple[int, ...]
    """Number of model calls by each agent; a repeated turn counts twice."""
    reader: str
    """The text at a reader that followed from the start."""
    late_reader: str
    """The text at a reader that began to follow at the end."""
    stop: str
    """The effect of a stop on the model's connection."""

    def record(self) -> dict[str, Any]:
        """Return the fact as JSON."""
        return asdict(self)


class TokenReader:
    """A thread that follows an errand and records each token."""

    def __init__(self, peer: Peer, task: str) -> None:
        self.texts: list[str] = []
        self._left = False
        self._following = peer.follow(task)
        self._thread = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        """Start to read, after the errand was submitted."""
        self._thread.start()

    @property
    def tokens(self) -> list[str]:
        """The tokens and marks so far."""
        return "".join(f" {text} " if text == VOID_MARK else text for text in list(self.texts)).split()

    def leave(self) -> None:
        """Ignore errors from now on, because the connection may be closed."""
        self._left = True

    def _read(self) -> None:
        try:
            for text in self._following:
                self.texts.append(text)
        except Exception:
            if not self._left:
                raise


def find_facts(peers: Sequence[type[Peer]], timeout: float) -> Iterator[Fact]:
    """Yield the fact of each peer, which has `timeout` seconds to continue by itself."""
    with tempfile.TemporaryDirectory(prefix="roboco-facts-") as folder:
        for peer in peers:
            with (
                _model() as model,
                peer(Path(folder) / f"{peer.__name__}-kill", model.base_url, workers=1) as running_peer,
            ):
                killed = _kill_in_turn(running_peer, model, timeout)
            with (
                _model() as model,
                peer(Path(folder) / f"{peer.__name__}-stop", model.base_url, workers=1) as running_peer,
            ):
                stop = _stop_in_turn(running_peer, model)
            yield Fact(peer.name, **killed, stop=stop)


def _model() -> ModelServer:
    """Return a model whose first reply to the second agent does not end."""
    model = ModelServer()

    def answer(request: Request) -> Reply:
        first = request.system == PROMPTS[1] and len(_calls(model, PROMPTS[1])) == 1
        return Reply(chunks=["token "] * (ENDLESS_CHUNKS if first else TOKENS), interval=0.1)

    model.script(answer)
    return model


def _kill_in_turn(peer: Peer, model: ModelServer, timeout: float) -> dict[str, Any]:
    task, reader = _start_streaming(peer)
    peer.add_worker()
    assert not _calls(model, PROMPTS[1])[0].completed, "the turn was over too soon"
    peer.kill_worker()
    recovery = _describe_recovery(peer, model, task, timeout)
    if recovery != "never":
        until(lambda: peer.ended(task), TIMEOUT, f"{peer.name} ends")
    late = TokenReader(peer, task)
    late.start()
    _holds_within(lambda: len(late.tokens) >= len(reader.tokens), SHORT_TIMEOUT)
    reader.leave()
    late.leave()
    return {
        "recovery": recovery,
        "calls": tuple(len(_calls(model, prompt)) for prompt in PROMPTS),
        "reader": _describe_text(reader.tokens),
        "late_reader": _describe_text(late.tokens),
    }


def _start_streaming(peer: Peer) -> tuple[str, TokenReader]:
    """Submit an errand, wait until its second agent streams, and return its id and reader."""
    task = new_name("task")
    reader = TokenReader(peer, task)
    peer.submit(task, PROMPTS)
    reader.start()
    until(lambda: len(reader.tokens) >= TOKENS_BEFORE_KILL, TIMEOUT, f"{peer.name} streams")
    return task, reader


def _describe_recovery(peer: Peer, model: ModelServer, task: str, timeout: float) -> str:
    """Apply one remedy after the other until the second agent calls the model again. Return the outcome as text."""
    remedies: tuple[tuple[str, Callable[[], None], float], ...] = (
        ("by itself after {:.0f} s", lambda: None, timeout),
        ("not by itself; {:.0f} s after its worker was started again", lambda: peer.start_worker(0), TIMEOUT),
        ("not by itself; {:.0f} s after it was submitted again", lambda: peer.resubmit(task), TIMEOUT),
    )
    for outcome, act, seconds in remedies:
        began = time.monotonic()
        try:
            act()
        except NotImplementedError:
            continue
        if _holds_within(lambda: len(_calls(model, PROMPTS[1])) > 1, seconds):
            return outcome.format(_calls(model, PROMPTS[1])[1].time - began)
    return "never"


def _stop_in_turn(peer: Peer, model: ModelServer) -> str:
    """Stop an errand in the middle of a turn, and describe the effect on the model's connection."""
    task, reader = _start_streaming(peer)
    call = _calls(model, PROMPTS[1])[0]
    began = time.monotonic()
    try:
        peer.stop(task)
    except NotImplementedError as error:
        reader.leave()
        return f"none: {error}"
    _holds_within(lambda: call.client_disconnected_at is not None, SHORT_TIMEOUT)
    reader.leave()
    if call.client_disconnected_at is None:
        return f"the model still streams {SHORT_TIMEOUT:g} s later"
    return f"closes the model's connection after {call.client_disconnected_at - began:.2f} s"


def _describe_text(tokens: Sequence[str]) -> str:
    """Return a description of the tokens at a reader."""
    marked = VOID_MARK.strip() in tokens
    beyond = len(tokens) - marked - ALL_TOKENS
    if not tokens:
        return "nothing"
    if beyond < 0:
        return "a part"
    return f"all, and {beyond} tokens of the dead turn, {'marked' if marked else 'not marked'} as void"


def _calls(model: ModelServer, prompt: str) -> list[RequestRecord]:
    return [record for record in model.requests if record.request.system == prompt]


def _holds_within(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
