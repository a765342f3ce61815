"""Facts: what becomes of an errand whose worker is killed in the middle of a turn, or which is stopped there.

Two workers stand ready when the first one, which does the work, is killed with SIGKILL. If nothing has gone on after a
while, it is started again, as a supervisor does; if that does not help, the errand is handed in once more.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench.model import ENDLESS
from tests.bench.peers.peer import VOID, Peer
from tests.bench.stage import fresh
from tests.support.servers.model_server import ModelServer, Reply, Request, RequestRecord
from tests.support.stack import until

TOKENS, ALL = 5, 15
"""What each agent says, and all together; the second one speaks on and on when it is asked for the first time."""
PROMPTS = ("research", "write", "review")
SPOKEN = TOKENS + 20
"""Tokens that a reader has had at least when the worker is killed: the second agent is speaking."""
SOON, LATE = 30.0, 5.0
"""Seconds for what must come, and for what a stop, and a reader who comes at the end, may take."""


@dataclass(frozen=True)
class Fact:
    """What one peer has done."""

    peer: str
    goes_on: str
    calls: tuple[int, ...]
    """Calls of the model by each agent; a finished one's that is repeated counts twice."""
    reader: str
    late: str
    stop: str

    def record(self) -> dict[str, Any]:
        """The fact as JSON."""
        return asdict(self)


class Reader:
    """Follows an errand in a thread, and notes each token."""

    def __init__(self, peer: Peer, task: str) -> None:
        self.texts: list[str] = []
        self._left = False
        self._following = peer.follow(task)
        self._thread = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        """Read, from when the errand is there."""
        self._thread.start()

    @property
    def tokens(self) -> list[str]:
        """The tokens and marks so far."""
        return "".join(f" {text} " if text == VOID else text for text in list(self.texts)).split()

    def leave(self) -> None:
        """Read no more; the connection may be closed under it."""
        self._left = True

    def _read(self) -> None:
        try:
            for text in self._following:
                self.texts.append(text)
        except Exception:
            if not self._left:
                raise


def find(peers: Sequence[type[Peer]], patience: float) -> Iterator[Fact]:
    """The facts of each peer; `patience` is how long it may take to go on by itself."""
    with tempfile.TemporaryDirectory(prefix="roboco-facts-") as folder:
        for peer in peers:
            with _model() as model, peer(Path(folder) / f"{peer.__name__}-kill", model.base_url, workers=1) as playing:
                killed = _killed(playing, model, patience)
            with _model() as model, peer(Path(folder) / f"{peer.__name__}-stop", model.base_url, workers=1) as playing:
                stop = _stopped(playing, model)
            yield Fact(peer.name, **killed, stop=stop)


def _model() -> ModelServer:
    """A model whose second agent comes to an end when it is asked again, and not before."""
    model = ModelServer()

    def answer(request: Request) -> Reply:
        first = request.system == PROMPTS[1] and len(_calls(model, PROMPTS[1])) == 1
        return Reply(chunks=["token "] * (ENDLESS if first else TOKENS), interval=0.1)

    model.script(answer)
    return model


def _killed(peer: Peer, model: ModelServer, patience: float) -> dict[str, Any]:
    task, reader = _speaking(peer)
    peer.add_worker()
    assert not _calls(model, PROMPTS[1])[0].completed, "the turn was over too soon"
    peer.kill_worker()
    goes_on = _going_on(peer, model, task, patience)
    if goes_on != "never":
        until(lambda: peer.ended(task), SOON, f"{peer.name} ends")
    late = Reader(peer, task)
    late.start()
    _within(lambda: len(late.tokens) >= len(reader.tokens), LATE)
    reader.leave()
    late.leave()
    return {
        "goes_on": goes_on,
        "calls": tuple(len(_calls(model, prompt)) for prompt in PROMPTS),
        "reader": _had(reader.tokens),
        "late": _had(late.tokens),
    }


def _speaking(peer: Peer) -> tuple[str, Reader]:
    """An errand whose second agent is speaking, and its reader."""
    task = fresh("task")
    reader = Reader(peer, task)
    peer.submit(task, PROMPTS)
    reader.start()
    until(lambda: len(reader.tokens) >= SPOKEN, SOON, f"{peer.name} speaks")
    return task, reader


def _going_on(peer: Peer, model: ModelServer, task: str, patience: float) -> str:
    """How it came that the second agent was asked again."""
    chances: tuple[tuple[str, Callable[[], None], float], ...] = (
        ("by itself after {:.0f} s", lambda: None, patience),
        ("not by itself; {:.0f} s after its worker was started again", lambda: peer.start_worker(0), SOON),
        ("not by itself; {:.0f} s after it was handed in again", lambda: peer.again(task), SOON),
    )
    for told, act, seconds in chances:
        began = time.monotonic()
        try:
            act()
        except NotImplementedError:
            continue
        if _within(lambda: len(_calls(model, PROMPTS[1])) > 1, seconds):
            return told.format(_calls(model, PROMPTS[1])[1].time - began)
    return "never"


def _stopped(peer: Peer, model: ModelServer) -> str:
    """What a stop in the middle of the turn does to the model's connection."""
    task, reader = _speaking(peer)
    call = _calls(model, PROMPTS[1])[0]
    began = time.monotonic()
    try:
        peer.stop(task)
    except NotImplementedError as error:
        reader.leave()
        return f"none: {error}"
    _within(lambda: call.client_disconnected_at is not None, LATE)
    reader.leave()
    if call.client_disconnected_at is None:
        return f"the model goes on speaking, {LATE:g} s later still"
    return f"closes the model's connection after {call.client_disconnected_at - began:.2f} s"


def _had(tokens: Sequence[str]) -> str:
    """What a reader has."""
    marked = VOID.strip() in tokens
    beyond = len(tokens) - marked - ALL
    if not tokens:
        return "nothing"
    if beyond < 0:
        return "a part"
    return f"all, and {beyond} tokens of the dead turn, {'told' if marked else 'not told'} that they are void"


def _calls(model: ModelServer, prompt: str) -> list[RequestRecord]:
    return [record for record in model.requests if record.request.system == prompt]


def _within(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
