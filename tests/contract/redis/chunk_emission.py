"""A chunk that is emitted, and what came of it."""

from concurrent.futures import Future

from roboco.domain.stream.event import StreamChunk
from roboco.ports.leases import Chunk, LeaseStatus, TurnClaim, TurnLeases
from roboco.ports.task_store import TokenUsage

SECONDS = 60.0
"""How long what came of it is waited for."""


def emit_chunk(turns: TurnLeases, claim: TurnClaim, number: int, message: StreamChunk, used: TokenUsage) -> LeaseStatus:
    """How the lease stands after the chunk; raises what kept the chunk from going out."""
    came: Future[LeaseStatus | Exception] = Future()
    turns.emit(claim, Chunk(number, message, used), came.set_result)
    answer = came.result(SECONDS)
    if isinstance(answer, Exception):
        raise answer
    return answer
