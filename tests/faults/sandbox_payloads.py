"""The code of attacks on the sandbox. It prints "refused" if the sandbox refused every attempt."""


def attempt(*lines: str) -> str:
    """Return code in which every line must fail with an OSError."""
    tries = "\n".join(TRY.replace("LINE", line).replace("TEXT", repr(line)) for line in lines)
    return f"{CALL}\n{tries}\nprint('refused')"


TRY = """
try:
    LINE
except OSError as error:
    print(TEXT, error)
else:
    raise SystemExit(TEXT + ' worked')
"""
CALL = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)
"""
FORKED_PROCESSES = """
import os, time
for _ in range(6):
    if not os.fork():
        held = bytearray(24 << 20)
        time.sleep(60)
time.sleep(60)
"""
FORK_BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
DAEMON = """
import os, time
reader, writer = os.pipe()
if not os.fork():
    os.setsid()
    if not os.fork():
        print('daemon is up', flush=True)
        os.write(writer, b'.')
        while True:
            open('written', 'a').write('x')
            time.sleep(0.001)
    os._exit(0)
os.read(reader, 1)
print('main ends')
"""
FILL_DISK = """
import errno
blocks, at = 0, 0
try:
    while True:
        with open(f'/tmp/box/f{at}', 'wb') as f:
            for _ in range(4):
                f.write(bytes(1 << 20)); f.flush(); blocks += 1
        at += 1
except OSError as error:
    assert error.errno == errno.ENOSPC, error
assert blocks <= 16 + 3, blocks
print(blocks, 'MiB', 'refused')
"""
FILL_EVERYWHERE = """
import os
from pathlib import Path
written = 0
for folder in ('/', '/dev', '/dev/shm', '/tmp', '/tmp/box', '/etc', '/proc', '/usr/lib', '/run', '/var/tmp', '/home'):
    try:
        with open(folder + '/filler', 'wb', buffering=0) as f:
            while True:
                written += f.write(bytes(1 << 20))
    except OSError as error:
        print(folder, error)
assert written <= 19 << 20, written
print('refused')
"""
KILL_ALL = """
import os, signal
for pid in (1, PARENT, os.getppid(), -1):
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
        try:
            os.kill(pid, number) if pid != -1 else None
        except OSError as error:
            print(pid, error)
print('refused')
"""
FORGE_WRAPPER = """
import ctypes, os
try:
    with open('/proc/1/mem', 'r+b', buffering=0) as memory:
        for line in open('/proc/1/maps'):
            low, high = (int(number, 16) for number in line.split()[0].split('-'))
            if 'rw' in line and high < 1 << 47:
                memory.seek(low); memory.write(bytes(high - low))
except PermissionError:
    print('memory refused')
assert not os.access('/proc/1/fd', os.R_OK)
for number in range(3, 1024):
    try:
        os.write(number, b'forged' * 100)
    except OSError:
        pass
    else:
        raise SystemExit(f'descriptor {number} was open')
print('refused', flush=True)
"""
READ_SECRETS = """
import glob, os
def read(name):
    try:
        return open(name, 'rb').read()
    except PermissionError:
        return b''
seen = [read(name) for name in glob.glob('/proc/*/environ') + glob.glob('/proc/*/cmdline')]
assert not any(b'the-secret' in text for text in seen), seen
assert 'the-secret' not in repr(dict(os.environ))
for folder, below, _ in os.walk('/'):
    below[:] = [name for name in below if name not in ('proc', 'usr', 'lib')]
    assert 'HOST' not in folder, folder
for path in ('HOST', 'HOST/secret', '/root', '/etc/passwd', '/var', '/run', '/proc/1/root/HOST', '/proc/PARENT'):
    assert not os.path.exists(path), path
print('refused')
"""
UNOWNED_MEMORY = attempt(
    "os.memfd_create('x')",
    "call('shmget', 0, 1 << 30, 0o1600)",
    "call('msgget', 0, 0o1600)",
    "call('semget', 0, 100, 0o1600)",
    "call('mq_open', b'/x', 0o102, 0o600, None)",
)
SOCKETS = """
import os, socket, time
for _ in range(20):
    if not os.fork():
        break
held = []
try:
    while True:
        for one in socket.socketpair():
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
            one.setblocking(False)
            held.append(one)
except OSError:
    pass
for one in held:
    try:
        while True:
            one.send(bytes(4096))
    except OSError:
        pass
time.sleep(60)
"""
SHARED_MEMORY = """
import mmap, time
held = mmap.mmap(-1, 200 << 20)
for _ in range(200):
    held.write(bytes(1 << 20))
time.sleep(60)
"""
LINKS = """
import os
for at in ('HOST/secret', '/etc/passwd', '/proc/self/environ'):
    os.symlink(at, os.path.basename(at))
print('refused')
"""
MOVE_FOLDER = """
import os
os.rename('/tmp/box', '/tmp/other')
os.mkdir('/tmp/box')
open('/tmp/box/a', 'w').close()
print('refused')
"""
ENDLESS_OUTPUT = "while True: print('x' * 1000)"
