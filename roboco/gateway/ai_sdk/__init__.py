"""The AI SDK's UI message stream on the prefix `/ai`: a chat is a task, and an assistant's message is its work.

`routes.py` holds the routes, `chats.py` brings requests to tasks, and `ui_stream.py` translates streams without I/O, on
top of `openai/response_stream.py`. Nothing is stored: the ids of chats and messages lead to tasks and positions.
"""
