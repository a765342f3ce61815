"""Streams of the gateway: events of a task, of several tasks, and changes of the task list, in three formats.

Imports the gateway and the client library. Read `routes.py` first, then `live_response.py`. `form.py`, `selection.py`
and `place.py` are pure: from items of the client library they make frames, and from ids of frames places in a stream.
"""
