"""A shop that has Celery and not Roboco: its Celery tasks are tools of teams."""
