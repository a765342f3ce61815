"""Delay what this network namespace sends: python3 delay.py SECONDS, as root, in the place of a kernel's netem.

iptables hands the packets to queue 0 of the kernel (NFQUEUE), and this program lets each pass when its time has come.
It needs no package. Packets pass at once before it is ready, after its end, and while 10,000 packets wait.
"""

import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator

NETLINK_NETFILTER = 12
PACKET, VERDICT, CONFIG = 0x300, 0x301, 0x302
PACKET_HEADER, VERDICT_HEADER = 1, 2
COMMAND, PARAMETERS, MAX_LENGTH, MASK, FLAGS = 1, 2, 3, 4, 5
BIND, COPY_HEADERS, ACCEPT, REQUEST, PASS_IF_FULL = 1, 1, 1, 1, 1
SECONDS_BETWEEN_LOOKS = 1.0


def message(kind: int, *attributes: tuple[int, bytes]) -> bytes:
    """Return a message of NFQUEUE about queue 0. The values are multiples of four bytes long, or padded here."""
    body = struct.pack("!BBH", 0, 0, 0)
    for name, value in attributes:
        body += struct.pack("=HH", 4 + len(value), name) + value + bytes(-len(value) % 4)
    return struct.pack("=IHHII", 16 + len(body), kind, REQUEST, 0, 0) + body


def packets(data: bytes) -> Iterator[int]:
    """Yield the ids of the packets that a datagram of the kernel names."""
    while len(data) >= 16:
        length, kind = struct.unpack_from("=IH", data)
        place = 20
        while kind == PACKET and place + 4 <= length:
            size, name = struct.unpack_from("=HH", data, place)
            if name == PACKET_HEADER:
                yield struct.unpack_from("!I", data, place + 4)[0]
            place += size + (-size % 4)
        data = data[length + (-length % 4) :]


def main(seconds: float) -> None:
    """Let packets pass this number of seconds after they were sent, until this process is ended."""
    queue = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    queue.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    queue.bind((0, 0))
    queue.send(message(CONFIG, (COMMAND, struct.pack("!BBH", BIND, 0, 0))))
    queue.send(message(CONFIG, (PARAMETERS, struct.pack("!IB", 0, COPY_HEADERS))))
    full = struct.pack("!I", PASS_IF_FULL)
    queue.send(message(CONFIG, (MAX_LENGTH, struct.pack("!I", 10_000)), (MASK, full), (FLAGS, full)))
    waiting: deque[tuple[float, int]] = deque()
    while True:
        left = waiting[0][0] - time.monotonic() if waiting else SECONDS_BETWEEN_LOOKS
        if left > 0:
            queue.settimeout(left)
            try:
                data = queue.recv(1 << 16)
            except TimeoutError:
                continue
            due = time.monotonic() + seconds
            waiting.extend((due, packet) for packet in packets(data))
        else:
            _, packet = waiting.popleft()
            queue.send(message(VERDICT, (VERDICT_HEADER, struct.pack("!II", ACCEPT, packet))))


if __name__ == "__main__":
    main(float(sys.argv[1]))
