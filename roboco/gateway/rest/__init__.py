"""The REST API `/v1`: teams, tasks, controls, records and files, as JSON and bytes.

    request ─► Caller ─► scope ─► one thread: the caller's task, then the client library ─► JSON ─► ETag ─► response

Open `endpoints.py` first. `models.py` holds the bodies, and `openapi.py` completes the document. Streams of tasks
are in `roboco.gateway.streams`.
"""
