"""The errors of browsers, as agents read them: why a call cannot be done, or a browser cannot be reached."""

from typing import Literal

AttachFault = Literal[
    "no_browser", "no_display", "root_sandbox", "profile_in_use", "not_started", "start_timeout",
    "no_listener", "not_chrome", "needs_profile", "not_enabled", "no_consent",
    "refused_connection", "host_not_allowed", "address_unreadable", "too_many", "another_principal",
]  # fmt: skip
"""The known reasons why a browser cannot be started or reached."""


class BrowserFaultError(Exception):
    """A tool of the browser cannot do what was asked; the text says why, and what to do."""


class AttachError(BrowserFaultError):
    """A browser cannot be started or reached; `fault` is which of the known reasons it is."""

    def __init__(self, fault: AttachFault, message: str) -> None:
        self.fault = fault
        super().__init__(message)
