"""Results of an MCP server's tool calls, as JSON."""

from typing import Any

from mcp_types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from roboco.adapters.mcp.media import ContentParts
from roboco.domain.canonical_json import validated_json

MAX_ERROR_CHARS = 4000
"""Maximum number of characters of an error that are passed on."""


def result_json(result: CallToolResult) -> Any:
    """Return the structured content, else the text; ContentParts if there is anything beside text.

    A part is an object with a `type`: `structured` (`value`), `text`, `image` and `audio` (`mime_type`, and `data` in
    base64), `resource` (`uri`, `mime_type`, and `text` or `data`) or `resource_link` (`uri`, `name`, `mime_type`).
    Before the result is stored or shown, `extract_media` removes the base64 data. Raise ValueError if the result is not
    JSON, for instance because of NaN.
    """
    if all(isinstance(block, TextContent) for block in result.content):
        return validated_json(text_content(result) if result.structured_content is None else result.structured_content)
    structured = [] if result.structured_content is None else [_structured_part(result.structured_content)]
    return ContentParts(validated_json([*structured, *map(_content_part, result.content)]))


def text_content(result: CallToolResult) -> str:
    """Return the text blocks of the result, joined by line breaks."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def _structured_part(value: Any) -> dict[str, Any]:
    return {"type": "structured", "value": value}


def _content_part(block: ContentBlock) -> dict[str, Any]:
    match block:
        case TextContent():
            return {"type": "text", "text": block.text}
        case ImageContent() | AudioContent():
            return {"type": block.type, "mime_type": block.mime_type, "data": block.data}
        case ResourceLink():
            return {"type": "resource_link", "uri": block.uri, "name": block.name, "mime_type": block.mime_type}
        case EmbeddedResource():
            held = block.resource
            body = {"text": held.text} if isinstance(held, TextResourceContents) else {"data": held.blob}
            return {"type": "resource", "uri": held.uri, "mime_type": held.mime_type, **body}
