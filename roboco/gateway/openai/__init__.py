"""OpenAI's API on the prefix `/openai/v1`: teams are models, a task is a conversation, its work a response.

`responses.py` and `chat.py` hold the routes, `accepting.py` brings requests to tasks, and `response_stream.py` and
`chat_stream.py` translate streams without I/O. Nothing is stored: ids and numbers derive from tasks. Read
`response_stream.py` first. The modules import `roboco.client`, `roboco.domain` and the other modules of the gateway.
"""
