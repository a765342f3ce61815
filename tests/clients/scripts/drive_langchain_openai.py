"""langchain-openai, with chat completions."""

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from rows import HELLO, PLACE, STOP, WEATHER, drive, endless, expect, expect_pieces, weather

model = ChatOpenAI(model="desk")


class Place(BaseModel):
    """A place and its temperature."""

    city: str
    degrees: int


def plain() -> None:
    expect(model.invoke("Hello").text, HELLO)


def stream() -> None:
    expect_pieces(chunk.text for chunk in model.stream("a long one"))


def tools() -> None:
    helped = model.bind_tools([weather])
    messages = [HumanMessage("the weather?")]
    messages.append(helped.invoke(messages))
    messages += [ToolMessage(weather(**call["args"]), tool_call_id=call["id"]) for call in messages[-1].tool_calls]
    expect(helped.invoke(messages).text, WEATHER)


def structured() -> None:
    for method in ("json_schema", "function_calling", "json_mode"):
        expect(model.with_structured_output(Place, method=method).invoke("as JSON"), Place(**PLACE))


def parameters() -> None:
    tuned = ChatOpenAI(model="desk", temperature=0, max_tokens=500, top_p=0.9, seed=7)
    expect(tuned.invoke("Hello").text, HELLO)


def history() -> None:
    messages = [HumanMessage("one"), AIMessage("1"), HumanMessage("two")]
    expect(model.invoke(messages).text, "helper answers message 2: two")


def cancel() -> None:
    chunks = ChatOpenAI(model="desk", default_headers=STOP).stream(endless("langchain-openai"))
    for chunk in chunks:
        if chunk.text:
            break
    chunks.close()


drive(
    {
        "plain": plain,
        "stream": stream,
        "tools": tools,
        "structured output": structured,
        "parameters": parameters,
        "history": history,
        "cancel": cancel,
    }
)
