"""`celery -A tests.bench.peers.celery_worker worker --pool threads --concurrency 100`: a turn as a Celery task."""

import os

from openai import OpenAI
from redis import Redis

from tests.bench.peers.celery_chain import TURN, application
from tests.bench.peers.model_call import stream_tokens

CONNECTIONS = 200

app = application(os.environ["PEER_REDIS"])
_redis = Redis.from_url(os.environ["PEER_REDIS"], max_connections=CONNECTIONS)
_model = OpenAI(max_retries=0)


@app.task(name=TURN)
def turn(texts: list[str], task: str, prompt: str) -> list[str]:
    """Publish each token of this agent. Return the earlier texts and its own."""
    reply = ""
    for text in stream_tokens(_model, prompt, texts):
        _redis.publish(f"errand:{task}", text)
        reply += text
    return [*texts, reply]
