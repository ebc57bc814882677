"""The options by which commands narrow tools: tags, and limits of use."""

from typing import Annotated

import typer

from maitred.errors import ConfigError
from maitred.model.usage import UsageFilter, parse_age

TagOption = Annotated[list[str] | None, typer.Option(help="Only tools with this tag; repeatable.")]
MaxLatencyOption = Annotated[
    float | None,
    typer.Option("--max-latency-ms", min=0, help="Only tools whose calls took at most that in the mean."),
]
MinSuccessOption = Annotated[
    float | None,
    typer.Option(
        "--min-success", min=0, max=1, help="Only tools of whose calls this share succeeded, such as 0.95."
    ),
]
UsedWithinOption = Annotated[
    str, typer.Option("--used-within", metavar="AGE", help="Only tools called within 90m, 24h, 7d or 2w.")
]


def use_of(max_latency_ms: float | None, min_success: float | None, used_within: str) -> UsageFilter:
    """The limits of use of a command.

    Raises:
        ConfigError: The time span is none.
    """
    try:
        span = parse_age(used_within) if used_within else None
    except ValueError as fault:
        raise ConfigError("--used-within", [str(fault)]) from None
    return UsageFilter(max_latency_ms=max_latency_ms, min_success=min_success, used_within=span)
