"""The JavaScript of maitred that runs in pages: what is injected, and the module for pages that dial in."""

from functools import cache
from importlib.resources import files


@cache
def page_script(name: str) -> str:
    """The text of one script of this package."""
    return (files("maitred.browser.pages") / f"{name}.js").read_text(encoding="utf-8").rstrip()


def dial_in_module() -> str:
    """The module that a page loads to dial in: `dialIn`, and `document.modelContext` if that is missing."""
    bridge = f"const bridge =\n{page_script('bridge')};"
    return f"{page_script('polyfill')}\n\n{bridge}\n\n{page_script('dial_in')}\n"
