"""roboco export: a task as a tar file."""

import os
import uuid
from pathlib import Path

import click
from rich.progress import DownloadColumn

from roboco.cli.terminal import options
from roboco.cli.terminal.caller import caller_settings
from roboco.cli.terminal.json_output import print_result
from roboco.cli.terminal.progress import progress
from roboco.client.orchestrator import Orchestrator
from roboco.errors import UsageError


@click.command("export")
@click.argument("task_id")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@options.as_json
def export_task(task_id: str, file: Path, as_json: bool) -> None:
    """Write an ended task to a tar file.

    The file has its history, events, files and team.

    The last member of the tar has a digest of each file. It is written under a temporary name first, and an existing
    file is not replaced.
    """
    if file.exists():
        raise UsageError(f"{file} exists; name another file")
    part = file.with_name(f".{file.name}.{uuid.uuid4().hex[:8]}")
    with Orchestrator(caller_settings()) as orchestrator:
        pieces = orchestrator.operator.export_task(task_id)
        try:
            with part.open("xb") as written, progress(f"exporting {task_id}", None, DownloadColumn()) as show:
                os.chmod(part, 0o600)
                for piece in pieces:
                    written.write(piece)
                    show(written.tell())
                written.flush()
                os.fsync(written.fileno())
            os.link(part, file)
        except OSError as error:
            raise UsageError(f"{file} cannot be written: {error.strerror}") from error
        finally:
            part.unlink(missing_ok=True)
    size = file.stat().st_size
    record = {"task_id": task_id, "file": str(file), "bytes": size}
    print_result(as_json, record, f"{task_id} is in {file} ({size:,} bytes)")
