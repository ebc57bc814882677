"""Filters by query parameters, and the refusal of parameters that a route does not have."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from maitred.model.usage import UsageFilter, parse_age
from maitred.surfaces.http.openapi import API, error
from maitred.wording import did_you_mean

Tags = Annotated[
    list[str],
    Query(max_length=20, description="Only tools with all of these tags.", examples=[["language:python"]]),
]
_MaxLatency = Annotated[
    float | None,
    Query(
        ge=0,
        allow_inf_nan=False,
        description="Only tools whose calls took at most so many milliseconds in the mean.",
        examples=[100],
    ),
]
_MinSuccess = Annotated[
    float | None,
    Query(
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="Only tools of whose calls at least this share succeeded.",
        examples=[0.95],
    ),
]
_UsedWithin = Annotated[
    str,
    Query(
        pattern="^[0-9]{1,5}[mhdw]$|^$",
        description="Only tools that were called within this time, at most 30 days.",
        examples=["7d"],
    ),
]


def use_filter(
    max_latency_ms: _MaxLatency = None, min_success: _MinSuccess = None, used_within: _UsedWithin = ""
) -> UsageFilter:
    """The limits of use in a query.

    Raises:
        RequestValidationError: The time span is none, or too long.
    """
    try:
        span = parse_age(used_within) if used_within else None
    except ValueError as fault:
        raise _invalid("used_within", str(fault), used_within) from None
    return UsageFilter(max_latency_ms=max_latency_ms, min_success=min_success, used_within=span)


Use = Annotated[UsageFilter, Depends(use_filter)]


async def refuse_unknown_parameters(request: Request) -> None:
    """Refuse a query parameter that the route does not have: the answer would be to another query.

    Raises:
        RequestValidationError: It names the parameter, and the nearest one that the route has.
    """
    route = request.scope.get("route")
    if not isinstance(route, APIRoute) or not route.path.startswith(API):
        return
    known = list(_query_names(route.dependant))
    for name in request.query_params:
        if name not in known:
            there = f"there are {', '.join(known)}" if known else "there are none here"
            hint = did_you_mean(name[:100], known, otherwise=there)
            raise _invalid(name[:100], f"there is no such parameter; {hint}", None)


def _query_names(dependant: Dependant) -> Iterator[str]:
    """The query parameters of a route, and of what it depends on."""
    yield from (parameter.alias for parameter in dependant.query_params)
    for other in dependant.dependencies:
        yield from _query_names(other)


def describe_refusals(described: Mapping[str, Any]) -> None:
    """Say in a description that every route of the API may refuse a query."""
    for path, operations in described["paths"].items():
        for operation in operations.values() if path.startswith(API) else ():
            if "422" not in operation["responses"]:
                text = error(422)
                content = text["content"]["application/json"]
                schema = {"$ref": "#/components/schemas/Error"}
                operation["responses"]["422"] = {
                    "description": text["description"],
                    "content": {"application/json": {"schema": schema, **content}},
                }


def _invalid(name: str, fault: str, value: Any) -> RequestValidationError:
    return RequestValidationError(
        [{"type": "value_error", "loc": ("query", name), "msg": fault, "input": value}]
    )
