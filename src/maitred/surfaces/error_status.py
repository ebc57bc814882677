"""The HTTP status of every error that is raised on purpose; the API and the pages answer with the same."""

from collections.abc import Sequence
from typing import Final

from maitred.errors import (
    AdmissionError,
    AllowPatternError,
    ArgumentsError,
    AuditError,
    BusyError,
    CallNotApprovedError,
    CallTimeoutError,
    CursorError,
    DecisionError,
    MaitredError,
    NotAllowedError,
    NotFoundError,
    PrincipalError,
    ServerError,
    ServerUnavailableError,
    SignInError,
    StoreError,
    ToolWithheldError,
    UnknownDetailError,
    UnknownTagError,
)

STATUS: Final[Sequence[tuple[type[MaitredError], int]]] = (
    (NotFoundError, 404),
    (ToolWithheldError, 409),
    (AdmissionError, 409),
    (DecisionError, 409),
    (PrincipalError, 409),
    (AllowPatternError, 422),
    (CallNotApprovedError, 409),
    (NotAllowedError, 403),
    (SignInError, 403),
    (AuditError, 503),
    (BusyError, 429),
    (ArgumentsError, 422),
    (UnknownDetailError, 422),
    (UnknownTagError, 422),
    (CursorError, 400),
    (ServerUnavailableError, 503),
    (CallTimeoutError, 504),
    (ServerError, 502),
    (StoreError, 503),
    (MaitredError, 500),
)
"""The first entry that matches an error gives its status."""


def status_of(error: MaitredError) -> int:
    """The status of an error."""
    return next(status for kind, status in STATUS if isinstance(error, kind))
