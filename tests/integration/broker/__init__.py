"""Celery's consumer in workers, RabbitMQ as the broker, and Redis Cluster; servers are lost and killed."""
