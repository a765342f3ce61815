"""The session API of roboto.ai: its Python package talks to a team of Roboco without a change.

    requests.py   the bodies of requests         goals.py     goals, in both directions
    record.py     a session as a record          changes.py   deltas that a client appends
    starting.py   new sessions                   sending.py   messages, each accepted once
    waiting.py    long polls                     errors.py    the envelope, and errors in roboto.ai's form
    sessions.py, agents.py   the routes          answers.py   answers with a session

It imports the client library and the gateway. Read `changes.py` first.
"""
