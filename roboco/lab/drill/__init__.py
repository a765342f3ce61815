"""`roboco drill`: a user's team under faults, in its own stack. Read `command.py`, `session.py`, `faults.py`.

    command ─► session ─► a run for each fault ─► promises, weaknesses ─► text, JSON, HTML
                              │
               faults ─► stack: workers, gates before Redis and S3, a model server, stand-ins for the tools

Tests take the servers, and the transcript, from here. It imports the stack and the terminal of the command line, the
client, and of the engine what it checks.
"""

from roboco.adapters.extras import require_extra

require_extra("workers", "roboco drill", "local")  # before a module here imports one of its packages
