"""What a person refused of a server, and the rule that no approval undoes a refusal unnoticed.

Pure functions over the state of a server and its log, which `maitred.admission.approval` computes.
"""

from collections.abc import Sequence

from maitred.admission.approval import Approval
from maitred.errors import AdmissionError
from maitred.model.approvals import Event


def refusal_of(state: Approval, log: Sequence[Event]) -> Event | None:
    """The refusal by which a server, or what changed of it, is not in use now; `None` if there is none."""
    if state.suspended or state.withdrawn or state.rejected is None:
        return None
    if state.rejected != state.seen and state.state != "rejected":
        return None
    return next(
        (one for one in reversed(log) if one.kind == "rejected" and one.binding == state.rejected), None
    )


def check_not_refused(server: str, state: Approval, log: Sequence[Event]) -> None:
    """Refuse to approve what a person refused, for a caller that does not say that it means that.

    Raises:
        AdmissionError: A person refused it. The text says who, when and why, and how to approve it.
    """
    if (refusal := refusal_of(state, log)) is not None:
        raise AdmissionError(
            server,
            f"{refusal_text(refusal)}; to approve it all the same, say `--again`, or over HTTP `again: true`",
        )


def refusal_text(refusal: Event) -> str:
    """Who refused it, when and why, as a clause."""
    why = f" ({refusal.why})" if refusal.why else ""
    return f"{refusal.who or 'a person'} refused it on {refusal.at[:19].replace('T', ' ')} UTC{why}"
