"""The deployment in containers: the image, `compose.yaml`, and a network that breaks.

`room.sh` starts a Docker engine, `room.py` runs commands in it, `deployment.py` starts `compose.yaml` there.
`python -m tests.deployment.containers.faults` runs all faults between hosts.
The tests run where ROBOCO_ROOM names a folder, one at a time: `pytest -n 0 tests/deployment/containers`.
`shop.py`, `model.py` and `load.py` run in containers, `caller.py` outside of them.
"""
