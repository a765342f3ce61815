"""The deployment in containers: the image, `compose.yaml`, and a network that breaks.

`room.sh` starts a Docker engine, `room.py` runs commands in it, `deployment.py` starts `compose.yaml` there.
`python -m tests.deployment.containers.faults` runs all faults between hosts.
`test_containers.py` runs some of them where ROBOCO_ROOM is set.
`shop.py`, `model.py` and `load.py` run in containers.
"""
