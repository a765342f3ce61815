"""An application whose broker Roboco does not know gets an error instead of waiting."""

from celery import Celery

from roboco import Settings
from roboco.client.canvas.broker import broker_mistake

SHOP = "amqp://shop:secret@rabbit:5672//"


def test_broker_that_roboco_does_not_know_is_named_with_the_remedy() -> None:
    settings = Settings(callback_broker_url="amqp://:hidden@other//")
    mistake = broker_mistake(Celery(broker=SHOP, set_as_current=False), settings)
    assert (
        "this application's broker is amqp://***@rabbit:5672//, and Roboco would send to amqp://***@other//" in mistake
    )
    assert "Set ROBOCO_CALLBACK_BROKER_URL to the address of this application's broker" in mistake


def test_broker_with_failover_is_known_by_one_of_its_addresses() -> None:
    app = Celery(broker="redis://a/1;redis://b/1", set_as_current=False)
    failing_over = Celery(broker="redis://:pw@a/1;redis://:pw@b/1", set_as_current=False)
    assert broker_mistake(app, Settings(redis_url="redis://b/1")) == ""
    assert broker_mistake(failing_over, Settings(redis_url="redis://:pw@a/1")) == ""
    assert "redis://***@a/1;redis://***@b/1" in broker_mistake(failing_over, Settings(redis_url="redis://c/1"))
    assert "redis://a/1;redis://b/1" in broker_mistake(app, Settings(redis_url="redis://c/1"))
