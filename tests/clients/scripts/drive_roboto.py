"""roboto, whose sessions are called threads in newer releases."""

from rows import HELLO, LONG_TEXT, drive, expect, expect_pieces

try:
    from roboto.ai.agent_thread import AgentTextDeltaEvent, AgentThread, client_tool
except ImportError:
    from roboto.ai.agent_session import AgentSession as AgentThread
    from roboto.ai.agent_session import AgentTextDeltaEvent, client_tool


@client_tool
def client_weather(city: str) -> str:
    """Return the weather of a city."""
    return f"sun in {city}"


def last_text(thread: AgentThread) -> str:
    return "".join(content.text for content in thread.latest_message.content if hasattr(content, "text"))


def plain() -> None:
    thread = AgentThread.start("Hello")
    thread.run()
    expect(last_text(thread), HELLO)


def stream() -> None:
    thread = AgentThread.start("a slow and long one")
    expect_pieces([event.text for event in thread.events() if isinstance(event, AgentTextDeltaEvent)])
    expect(last_text(thread), LONG_TEXT)


def tools() -> None:
    thread = AgentThread.start("the weather?", client_tools=[client_weather])
    thread.run()
    expect(last_text(thread), 'The result is {"result":"sun in Bonn"}.')


def history() -> None:
    thread = AgentThread.start("one")
    thread.run()
    identity = thread.thread_id if hasattr(thread, "thread_id") else thread.session_id
    again = AgentThread.from_id(identity)
    again.send_text("two")
    again.run()
    expect(last_text(again), "helper answers message 2: two")


drive({"plain": plain, "stream": stream, "tools": tools, "history": history})
