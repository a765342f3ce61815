"""routes: all routes of the REST API, below `/v1`. Each operation has the name of its function as its id."""

from fastapi import APIRouter, Depends

from roboco.gateway.bodies.strict_json import StrictJsonRoute
from roboco.gateway.rest import (
    bulk,
    comparisons,
    controls,
    files,
    operations,
    records,
    removal,
    tasks,
    teams,
    usage,
)
from roboco.gateway.rest.parameters import refuse_unknown_parameters

router = APIRouter(
    route_class=StrictJsonRoute,
    prefix="/v1",
    generate_unique_id_function=lambda route: route.name,
    dependencies=[Depends(refuse_unknown_parameters)],
)
for part in (teams, tasks, comparisons, controls, records, files, operations, removal, bulk, usage):
    router.include_router(part.router)
router.include_router(controls.calls_router)
