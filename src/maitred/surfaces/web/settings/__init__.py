"""Settings: the configuration file by sections, and a change of one, after a look at the difference.

Which sections are locked is decided in `maitred.gateway.settings_sections`, and checked behind the gateway.
To add a section that may be changed, add its rule there; the pages show it.
"""

from collections.abc import Mapping
from typing import Any, Final

from maitred.errors import NotFoundError
from maitred.gateway import SectionChange, SectionComparison, SettingsFile, SettingsSection
from maitred.surfaces.web.outcomes import Outcomes
from maitred.surfaces.web.screen import Action, Form, ScreenPage, Visit, WebScreen, url_of

_COMPARED: Final = Outcomes[SectionComparison]()
_MOST_LINES: Final = 2_000
"""How many lines of a difference are shown; a longer one cannot be applied."""


async def view_file(visit: Visit) -> Mapping[str, Any]:
    """The file: its sections in their order, and those that may be added."""
    file = await visit.gateway.settings_file(visit.viewer)
    return {
        "file": file,
        "here_now": [one for one in file.sections if one.is_there],
        "to_add": [one for one in file.sections if not one.is_there],
    }


async def view_section(visit: Visit) -> Mapping[str, Any]:
    """One section: its text, or the text of a change with its faults or its difference."""
    file = await visit.gateway.settings_file(visit.viewer)
    section = _section(file, visit.path["section"])
    compared = _COMPARED.find(visit.session, visit.query.text("of"))
    if compared and compared.change.name != section.name:
        compared = None
    start = section.text if section.is_there else f"{section.name}:\n"
    return {
        "page_title": f"{section.name} · Settings",
        "file": file,
        "section": section,
        "compared": compared,
        "of": visit.query.text("of"),
        "text": compared.change.text if compared else start,
        "seen": compared.change.seen if compared else file.digest,
        "is_stale": compared is not None and compared.change.seen != file.digest,
        "most": _MOST_LINES,
    }


def _section(file: SettingsFile, name: str) -> SettingsSection:
    section = file.section(name)
    if section is None:
        raise NotFoundError(f"The configuration file has no section {name!r}, and none can be added here.")
    return section


async def compare(visit: Visit, form: Form) -> str:
    """Work out what a text would change; the page that follows shows it."""
    name = visit.path["section"]
    change = SectionChange(name=name, text=form.raw("text"), seen=form.text("seen"))
    compared = await visit.gateway.compare_settings(change, visit.viewer)
    return url_of("settings", name, of=_COMPARED.keep(visit.session, compared)) + "#difference"


async def apply(visit: Visit, form: Form) -> str:
    """Write the text whose difference was shown, and no other."""
    name = visit.path["section"]
    compared = _COMPARED.find(visit.session, form.text("of"))
    if compared is None or compared.change.name != name:
        visit.notify("This difference is not kept any more. Show it again, then apply it.", "fault")
        return url_of("settings", name)
    if len(compared.lines) > _MOST_LINES:
        visit.notify(
            "This difference is not shown whole, so it cannot be applied here. Edit the file.", "fault"
        )
        return url_of("settings", name)
    path = await visit.gateway.apply_settings(compared.change, visit.viewer)
    visit.notify(f"The gateway uses the new {name} now. It is in {path}.")
    return url_of("settings")


SCREEN: Final = WebScreen(
    title="Settings",
    role="admin",
    summary="the configuration file, and changes of it",
    pages=[
        ScreenPage(path="settings", template="settings/settings.html", view=view_file),
        ScreenPage(path="settings/{section}", template="settings/section.html", view=view_section),
    ],
    actions=[
        Action(path="settings/{section}/compare", act=compare),
        Action(path="settings/{section}/apply", act=apply),
    ],
)
