"""The session API of roboto.ai: its Python package talks to a team of Roboco without a change.

    requests.py   the bodies of requests         goals.py     goals, in both directions
    answers.py    sessions, and long polls       changes.py   deltas that a client appends
    starting.py   new sessions                   sending.py   messages, each accepted once
    sessions.py, agents.py   the routes          errors.py    the envelope, and errors in roboto.ai's form

It imports the client library and the gateway. Read `changes.py` first.
"""
