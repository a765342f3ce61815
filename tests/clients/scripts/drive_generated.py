"""A client that openapi-python-client generates from the gateway's OpenAPI document."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.request import urlopen

from rows import HELLO, drive, expect

url = os.environ["ROBOTO_SERVICE_ENDPOINT"]
folder = Path(tempfile.mkdtemp())
program = Path(sys.executable).with_name("openapi-python-client")
with urlopen(f"{url}/v1/openapi.json", timeout=60) as response:  # the gateway builds it at its first use
    (folder / "openapi.json").write_bytes(response.read())
command = [program, "generate", "--path", folder / "openapi.json", "--meta", "none", "--output-path", folder / "made"]
done = subprocess.run(command, capture_output=True, text=True, timeout=120)
if not (folder / "made" / "client.py").exists():
    raise SystemExit(done.stdout + done.stderr)
sys.path.insert(0, str(folder))

from made import Client  # noqa: E402
from made.api.controls import send_message  # noqa: E402
from made.api.records import get_result  # noqa: E402
from made.api.tasks import create_task  # noqa: E402
from made.models import NewMessage, NewTask  # noqa: E402

client = Client(base_url=url, raise_on_unexpected_status=True)


def plain() -> None:
    created = create_task.sync(client=client, body=NewTask(team="desk", prompt="Hello"))
    expect(get_result.sync(created.task_id, client=client, wait=20).text, HELLO)


def history() -> None:
    created = create_task.sync(client=client, body=NewTask(team="desk", prompt="one", conversation=True))
    get_result.sync(created.task_id, client=client, wait=20)
    send_message.sync(created.task_id, client=client, body=NewMessage(message="two"), wait=20)
    answer = get_result.sync(created.task_id, client=client, wait=20)
    expect(answer.text, "helper answers message 2: two")


drive({"plain": plain, "history": history})
