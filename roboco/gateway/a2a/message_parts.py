"""message_parts: the text of a message, and the answers to calls in its data parts."""

from collections.abc import Iterator
from typing import Any

from a2a.types import Message
from google.protobuf.json_format import MessageToDict

from roboco.domain.canonical_json import canonical_json
from roboco.gateway.openai.turn import Answer, Decided, Resolved, Returned
from roboco.gateway.problem import invalid


def text_of(message: Message) -> str:
    """Return the text of a message; data are JSON in it."""
    texts = list[str]()
    for part in message.parts:
        match part.WhichOneof("content"):
            case "text":
                texts.append(part.text)
            case "data":
                texts.append(canonical_json(MessageToDict(part.data)))
            case "url":
                texts.append(part.url)
            case _:
                raise invalid(
                    "parts: bytes of files are not supported", "upload files with the REST API, or send links"
                )
    return "\n\n".join(texts)


def answers_of(message: Message) -> Iterator[Answer]:
    """Yield the results, decisions and resolutions of the data parts that name a call."""
    for part in message.parts:
        data = MessageToDict(part.data) if part.HasField("data") else None
        if isinstance(data, dict) and str(data.get("callId")).startswith("tc_"):  # others are the application's data
            yield _answer(data["callId"], data)


def _answer(call_id: str, data: dict[str, Any]) -> Answer:
    args = data.get("args")
    if args is not None and not isinstance(args, dict):
        raise invalid("args of a decision must be an object")
    match data:
        case {"approved": bool(approved)}:
            return Decided(call_id, approved, str(data.get("reason") or ""), args)
        case {"happened": bool(happened)}:
            return Resolved(call_id, happened, data.get("result"))
        case {"error": str(error)}:
            return Returned(call_id, f"error: {error}")
        case {"result": str(text)}:
            return Returned(call_id, text)
        case {"result": result}:
            return Returned(call_id, canonical_json(result))
        case _:
            raise invalid("data with a callId must have approved or happened, true or false, or a result or an error")
