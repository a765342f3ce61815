"""Harmless code in the sandbox, its output, and the files that are kept of it, whatever their names and kinds are."""

import platform
import sys
import threading
from pathlib import Path

import pytest

from roboco.errors import UsageError
from roboco.tools.sandbox import bubblewrap, programs, sandbox
from roboco.tools.sandbox.limits import MIB, SandboxLimits
from roboco.tools.sandbox.programs import Programs
from roboco.tools.sandbox.result import RunResult
from roboco.tools.sandbox.sandbox import Sandbox
from roboco.tools.sandbox.seccomp import system_call_filter
from roboco.tools.sandbox.supervisor import OutputBuffer


@pytest.fixture
def sandbox_available() -> None:
    """Skip the test if the sandbox cannot start on this machine."""
    refusal = Sandbox().refusal()
    if refusal:
        pytest.skip(refusal)


def run_code(code: str, inputs: dict[str, Path] | None = None, limits: SandboxLimits | None = None) -> RunResult:
    """Return the result of the code. Its files can no longer be read."""
    with Sandbox(limits or SandboxLimits()).run(code, inputs or {}, lambda: False) as result:
        return result


@pytest.mark.usefixtures("sandbox_available")
@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("print(6 * 7)", "42\n"),
        ("import sys\nprint('a'); print('b', file=sys.stderr); print('c', end='')", "a\nb\nc"),
        ("print('Grüße, 世界 🐟')", "Grüße, 世界 🐟\n"),
        ("from multiprocessing import Pool\nif __name__ == '__main__': print(Pool(2).map(abs, [-1, 2]))", "[1, 2]\n"),
        ("import os\nprint(os.getuid(), os.getcwd(), sorted(os.environ))",
         "65534 /tmp/box ['HOME', 'LANG', 'PATH', 'PWD']\n"),
        ("import sys\nprint(repr(sys.stdin.read()), sys.argv, __name__)", "'' ['/tmp/code.py'] __main__\n"),
        ("# " + "x" * 900_000 + "\nprint('long')", "long\n"),
    ],
)  # fmt: skip
def test_code_runs_and_its_output_is_returned(code: str, output: str) -> None:
    assert run_code(code) == RunResult(output=output, exit_code=0, end_reason="", files=(), skipped=())


@pytest.mark.usefixtures("sandbox_available")
def test_new_and_changed_files_are_returned(tmp_path: Path) -> None:
    inputs = {name: tmp_path / name for name in ("same.txt", "touched.txt", "changed.txt", "longer.txt", "gone.txt")}
    for path in inputs.values():
        path.write_text("abc")
    code = """
import os
open('touched.txt', 'w').write('abc'); open('changed.txt', 'w').write('abd'); open('longer.txt', 'a').write('d')
os.remove('gone.txt'); open('new.bin', 'wb').write(bytes(range(256)) * 4096); open('empty', 'w').close()
print(open('same.txt').read()); os.chmod('new.bin', 0); os.chmod('.', 0)
"""
    with Sandbox().run(code, inputs, lambda: False) as result:
        kept = {file.name: file.path.read_bytes() for file in result.files}
        sizes = {file.name: file.size for file in result.files}
    assert kept == {"changed.txt": b"abd", "longer.txt": b"abcd", "new.bin": bytes(range(256)) * 4096, "empty": b""}
    assert sizes == {name: len(data) for name, data in kept.items()}
    assert (result.output, result.skipped) == ("abc\n", ())


HOSTILE_FILES = r"""
import os, socket
open('kept.txt', 'w').write('x')
for name in (b'line\nbreak', b'\xff\xfe', b'..x', b'.hidden', 'ü'.encode(), b'a' * 255, b'a b', b'-rf', b'\x1b[31m'):
    open(name, 'w').write('x')
os.mkdir('below'); open('below/deep.txt', 'w').write('x')
os.symlink('/etc/passwd', 'link'); os.symlink('kept.txt', 'link2'); os.mkfifo('pipe')
socket.socket(socket.AF_UNIX).bind('socket'); os.link('kept.txt', 'twice.txt')
"""


@pytest.mark.usefixtures("sandbox_available")
def test_code_with_a_nul_is_refused_and_not_truncated() -> None:
    with pytest.raises(UsageError, match="NUL character at position 8"):
        run_code("print(1)\0print(2)")


@pytest.mark.usefixtures("sandbox_available")
def test_each_skipped_file_is_reported_in_one_line() -> None:
    result = run_code(HOSTILE_FILES)
    assert [file.name for file in result.files] == ["kept.txt", "twice.txt"]
    assert len(result.skipped) == 14
    assert "'below' is a folder: write files directly into the working folder" in result.skipped
    assert all(line.isprintable() and len(line) < 300 for line in result.skipped)


@pytest.mark.usefixtures("sandbox_available")
@pytest.mark.parametrize(
    ("code", "files", "expected"),
    [
        ("for n in range(200): open(f'f{n:03}', 'w').write('x')", 32, "and 148 more that are not kept"),
        ("for n in range(40): open(f'f{n:03}', 'w').truncate(1 << 20)", 8, "with which the files exceed"),
        ("import os\nopen('f', 'wb').write(bytes(3 << 20))\nfor n in range(40): os.link('f', f'f{n}')", 2, "exceed"),
    ],
)
def test_files_are_kept_up_to_the_limits(code: str, files: int, expected: str) -> None:
    result = run_code(code, limits=SandboxLimits(disk=8 * MIB))
    assert len(result.files) == files
    assert expected in "\n".join(result.skipped)


@pytest.mark.usefixtures("sandbox_available")
def test_a_run_cancelled_while_it_starts_ends() -> None:
    with Sandbox().run("print(1)", {}, lambda: True) as result:
        assert (result.end_reason, result.exit_code, result.files) == ("cancelled", None, ())


@pytest.mark.parametrize("broken", [None, *(Programs(f"/{name}", "/usr/bin/python3") for name in ("x", "bin/true"))])
def test_without_a_sandbox_code_is_refused_with_the_remedy(
    broken: Programs | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_probe", sandbox._Probe())
    monkeypatch.setattr(sandbox, "find_programs", lambda: iter([broken] if broken else []))
    refusal = Sandbox().refusal()
    assert "cannot start on this worker" in refusal
    assert "to allow it" in refusal
    with pytest.raises(UsageError) as raised, Sandbox().run("print(1)", {}, lambda: False):
        pytest.fail("the code ran")
    assert str(raised.value) == refusal


def test_the_sandbox_is_refused_on_an_unknown_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert "'riscv64'" in Sandbox().refusal()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_system_call_filter_is_a_sequence_of_whole_instructions(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    steps, rest = divmod(len(system_call_filter()), 8)
    assert 100 < steps < 4096
    assert not rest


def test_only_the_folders_of_a_custom_interpreter_are_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "base_prefix", "/opt/python")
    found = list(programs._interpreters())
    assert found[0][1] == "/opt/python"
    given = bubblewrap.Descriptors(3, 4, 5, {})
    line = bubblewrap.sandbox_command(Programs("bwrap", *found[0]), SandboxLimits(), given, 1)
    assert "/opt/python/lib" in line
    assert "/opt/python" not in line
    monkeypatch.setattr(sys, "base_prefix", "/")
    assert all(prefix == "" for _, prefix in programs._interpreters())


@pytest.mark.parametrize("shift", range(4))
def test_truncation_splits_no_character(shift: int) -> None:
    output = OutputBuffer(64)
    output.append(b"x" * shift + "🐟".encode() * 100)
    text = output.text()
    assert "�" not in text
    assert text.startswith("x" * shift + "🐟")
    assert text.endswith("🐟")


def test_a_truncated_output_says_how_much_is_missing() -> None:
    output = OutputBuffer(10)
    output.append(b"12345" + b"-" * 90 + b"67890")
    assert output.text() == "12345\n[... 90 bytes of output left out here ...]\n67890"


@pytest.mark.usefixtures("sandbox_available")
def test_concurrent_runs_do_not_share_files(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("0")
    seen: dict[int, tuple[str, str]] = {}

    def one(number: int) -> None:
        code = f"print({number}); open('in', 'w').write('{number}')"
        with Sandbox().run(code, {"in": tmp_path / "in"}, lambda: False) as result:
            seen[number] = (result.output, result.files[0].path.read_text() if result.files else "")

    threads = [threading.Thread(target=one, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {number: (f"{number}\n", str(number)) for number in range(1, 7)}
    assert (tmp_path / "in").read_text() == "0"
