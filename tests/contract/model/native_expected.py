"""What a reader must get from a recorded stream, computed from its raw events without any library."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Expected:
    """The content of a recorded reply."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    finish: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cached_in: int = 0
    opaque: list[str] = field(default_factory=list)
    """Values that the provider wants back: signatures, encrypted reasoning."""


def expected_of(path: Path, raw: bytes) -> Expected:
    """Return the content of a recorded reply."""
    read = {"anthropic": _anthropic, "google": _google, "bedrock": _bedrock, "responses": _responses}
    return read[path.parent.name](raw)


def _server_sent(raw: bytes) -> Iterator[dict[str, Any]]:
    for line in raw.decode().splitlines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line.removeprefix("data: "))


def _anthropic(raw: bytes) -> Expected:
    found = Expected()
    usage: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    for event in _server_sent(raw):
        match event["type"]:
            case "message_start":
                usage |= event["message"]["usage"]
            case "content_block_start":
                blocks[event["index"]] = block = event["content_block"] | {"json": ""}
                found.text += block["text"] if block["type"] == "text" else ""
                found.reasoning += block["thinking"] if block["type"] == "thinking" else ""
                found.opaque += [block["data"]] if block["type"] == "redacted_thinking" else []
            case "content_block_delta":
                delta = event["delta"]
                found.text += delta.get("text", "")
                found.reasoning += delta.get("thinking", "")
                found.opaque += [delta["signature"]] if "signature" in delta else []
                blocks[event["index"]]["json"] += delta.get("partial_json", "")
            case "message_delta":
                found.finish = event["delta"]["stop_reason"]
                usage |= {name: count for name, count in event["usage"].items() if count is not None}
            case _:
                pass
    found.finish = {"end_turn": "stop", "tool_use": "tool_calls"}[found.finish]
    found.calls = [
        (one["name"], json.loads(one["json"] or "{}")) for one in blocks.values() if one["type"] == "tool_use"
    ]
    found.cached_in = usage.get("cache_read_input_tokens") or 0
    found.tokens_in = usage["input_tokens"] + found.cached_in + (usage.get("cache_creation_input_tokens") or 0)
    found.tokens_out = usage["output_tokens"]
    return found


def _google(raw: bytes) -> Expected:
    found = Expected()
    usage: dict[str, Any] = {}
    for event in _server_sent(raw):
        usage |= event.get("usageMetadata", {})
        candidate = event["candidates"][0]
        found.finish = candidate.get("finishReason", found.finish)
        for part in candidate.get("content", {}).get("parts", []):
            text = part.get("text", "")
            found.reasoning += text if part.get("thought") else ""
            found.text += "" if part.get("thought") else text
            found.opaque += [part["thoughtSignature"]] if "thoughtSignature" in part else []
            if call := part.get("functionCall"):
                found.calls.append((call["name"], call["args"]))
    found.finish = {"STOP": "stop"}[found.finish]
    found.cached_in = usage.get("cachedContentTokenCount", 0)
    found.tokens_out = usage["candidatesTokenCount"] + usage.get("thoughtsTokenCount", 0)
    found.tokens_in = usage["totalTokenCount"] - found.tokens_out
    return found


def _bedrock(raw: bytes) -> Expected:
    found = Expected()
    blocks: dict[int, dict[str, Any]] = {}
    for kind, event in _amazon_events(raw):
        block = blocks.setdefault(event.get("contentBlockIndex", -1), {"input": ""})
        match kind:
            case "contentBlockStart":
                block |= event["start"].get("toolUse", {})
            case "contentBlockDelta":
                delta = event["delta"]
                thought = delta.get("reasoningContent", {})
                found.text += delta.get("text", "")
                found.reasoning += thought.get("text", "")
                found.opaque += [thought[name] for name in ("signature",) if name in thought]
                block["input"] += delta.get("toolUse", {}).get("input", "")
            case "messageStop":
                found.finish = {"end_turn": "stop", "tool_use": "tool_calls"}[event["stopReason"]]
            case "metadata":
                usage = event["usage"]
                found.cached_in = usage.get("cacheReadInputTokens", 0)
                found.tokens_in = usage["inputTokens"] + found.cached_in + usage.get("cacheWriteInputTokens", 0)
                found.tokens_out = usage["outputTokens"]
            case _:
                pass
    found.calls = [(one["name"], json.loads(one["input"] or "{}")) for one in blocks.values() if "name" in one]
    return found


def _amazon_events(raw: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events of an AWS event stream: total length, length of headers, checksum, headers, JSON, checksum."""
    while raw:
        total, header_size = int.from_bytes(raw[:4], "big"), int.from_bytes(raw[4:8], "big")
        headers, payload = raw[12 : 12 + header_size], raw[12 + header_size : total - 4]
        yield headers.split(b":event-type\x07")[1][2:].split(b"\r")[0].decode(), json.loads(payload)
        raw = raw[total:]


def _responses(raw: bytes) -> Expected:
    found = Expected()
    for event in _server_sent(raw):
        match event["type"]:
            case "response.output_text.delta":
                found.text += event["delta"]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                found.reasoning += event["delta"]
            case "response.output_item.done":
                item = event["item"]
                found.opaque += [item["encrypted_content"]] if item.get("encrypted_content") else []
                if item["type"] == "function_call":
                    found.calls.append((item["name"], json.loads(item["arguments"])))
            case "response.completed":
                found.finish = "stop"
                usage = event["response"]["usage"]
                found.tokens_in, found.tokens_out = usage["input_tokens"], usage["output_tokens"]
                found.cached_in = usage["input_tokens_details"].get("cached_tokens", 0)
            case _:
                pass
    return found
