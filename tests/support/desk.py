"""The model of the tutorial's support desk."""

from typing import Final

from tests.support.servers.model_server import Reply, Request

LETTER: Final = ["Dear customer, ", "we are sorry. ", "Yours, ", "the shop."]


def answer(request: Request) -> Reply:
    """Return the reply of the clerk, or of the writer."""
    if "friendly letter" in request.system:
        return Reply(chunks=LETTER, interval=1.0 if "Slowly" in str(request.messages) else 0.1)
    results = [text for _, text in request.tool_results]
    if not results:
        return Reply(tool_calls=[("find_order", {"number": "17" if "17" in request.last_user else "18"})])
    if "money back" in request.last_user and "paid_back" not in results[-1]:
        return Reply(tool_calls=[("refund", {"order": "17", "euros": 24.9})])
    return Reply(text=f"I have read: {results[-1]}")
