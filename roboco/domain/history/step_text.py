"""step_text: a step in words, for readers that take text alone."""

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.part import ArtifactPart, ErrorPart, TextPart, ToolCallPart
from roboco.domain.history.step import TaskStep


def step_text(step: TaskStep, with_calls: bool = True) -> str:
    """Return the step as text."""
    lines: list[str] = []
    for part in step.parts:
        match part:
            case TextPart():
                lines.append(part.text)
            case ErrorPart():
                lines.append(f"(error: {part.message})")
            case ArtifactPart():
                lines.append(f"(file: {part.artifact.uri}, {part.artifact.mime_type})")
            case ToolCallPart() if with_calls:
                lines.append(f"(calls {part.tool_call.tool_name} with {canonical_json(part.tool_call.args)})")
            case _:
                pass
    if step.interrupted:
        lines.append("(interrupted by the user)")
    return "\n".join(lines)
