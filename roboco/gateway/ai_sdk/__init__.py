"""The AI SDK's UI message stream on the prefix `/ai`: a chat is a task, and an assistant's message is its work.

`routes.py` holds the routes, and `ui_stream.py` translates the parts of an answer (`answers`) into chunks without I/O.
Nothing is stored: the ids of chats and messages lead to tasks and positions.
"""
