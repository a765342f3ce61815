"""`roboco drill`: a user's team under faults, in its own stack. Read `command.py`, `session.py`, `faults.py`.

command ─► session ─► a run for each fault ─► promises, weaknesses ─► result ─► report
                          │
           faults ─► stack: workers, gates before Redis and S3, a model server, stand-ins for the tools
"""

from roboco.process.extras import require_extra

require_extra("workers", "roboco drill", "local")  # before a module here imports one of its packages
