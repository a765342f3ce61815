"""Teams as Celery tasks in the canvas of a shop: `roboco.team`, the tasks after it, and revokes.

Imports the modules of `roboco.client`. Read `roboco/celery.py` first, which installs them.
"""
