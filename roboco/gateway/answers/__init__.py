"""Answers: what the protocols of chats share, which are the AI SDK, AG-UI and A2A.

`chats.py` brings a message of a chat to its task, `answer_stream.py` translates the stream of the task into parts of an
answer without I/O, and `following.py` follows it until the answer is whole. Read `answer_stream.py` first.
"""
