"""Suspend and resume a principal, from the page of tokens."""

from maitred.surfaces.web.screen import Form, Visit, url_of
from maitred.wording import count_of


async def suspend(visit: Visit, form: Form) -> str:
    """Refuse all tokens of a principal, and end what it has open."""
    done = await visit.gateway.suspend_principal(form.text("principal"), visit.viewer, why=form.text("why"))
    refused = f"; {count_of(done.refused_calls, 'waiting call')} refused" if done.refused_calls else ""
    visit.notify(
        f"{done.principal} is suspended: its tokens are refused, and what it ran has ended{refused}."
    )
    return url_of("access")


async def resume(visit: Visit, form: Form) -> str:
    """Give a principal back what it may do."""
    name = form.text("principal")
    await visit.gateway.resume_principal(name, visit.viewer, why=form.text("why"))
    visit.notify(f"{name} is resumed: its tokens count again.")
    return url_of("access")
