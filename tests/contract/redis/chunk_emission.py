"""Emission of a chunk, whose acknowledgement arrives in a callback."""

from concurrent.futures import Future

from roboco.domain.stream.event import StreamChunk
from roboco.ports.lease_renewals import LeaseStatus
from roboco.ports.leases import Chunk, Leases, TurnClaim
from roboco.ports.snapshot import TokenUsage

ACK_TIMEOUT = 60.0
"""Seconds to wait for the acknowledgement."""


def emit_chunk(leases: Leases, claim: TurnClaim, number: int, message: StreamChunk, used: TokenUsage) -> LeaseStatus:
    """Emit the chunk. Return the status of the lease after it, or raise the error that prevented the chunk."""
    ack: Future[LeaseStatus | Exception] = Future()
    leases.emit(claim, Chunk(number, message, used), ack.set_result)
    status = ack.result(ACK_TIMEOUT)
    if isinstance(status, Exception):
        raise status
    return status
