"""The way into documents by a script of ours: it offers `document.modelContext` where the browser does not.

The script runs before those of the page, and ends at once where the origin is not allowed. It reports the
tools by a binding that the page cannot name, and runs them when the gateway calls. What it reports is no more
than what the page could say itself, so nothing is believed of it but the tools.
"""

import json
import secrets
from collections.abc import Mapping

from maitred.browser.pages.document_link import DocumentLink
from maitred.browser.pages.documents import DocumentContext
from maitred.browser.pages.links import PageTool
from maitred.browser.pages.reports import MOST_MESSAGE, ReportedTools, read_message
from maitred.browser.pages.scripts import page_script
from maitred.model.pages import OriginRules
from maitred.token_bucket import TokenBucket


class Injection:
    """The script, with names that no page can know. Each session of a browser gets the same."""

    def __init__(self, rules: OriginRules, *, uses_native: bool) -> None:
        self.uses_native = uses_native
        self.binding = f"__maitred_{secrets.token_hex(8)}"
        self.key = f"__maitred_{secrets.token_hex(8)}"
        self._rules = json.dumps(rules.to_json())

    @property
    def _prepare(self) -> str:
        bridge = f"({page_script('bridge')})({json.dumps(self.key)}, {json.dumps(self.uses_native)});"
        return f"() => {{ {page_script('polyfill')}\n{bridge} }}"

    @property
    def source(self) -> str:
        """The JavaScript to run at the beginning of each new document."""
        return f"({page_script('guard')})({self._rules}, {self._prepare});"

    @property
    def connecting(self) -> str:
        """The JavaScript to run in a document of an allowed origin that has the binding."""
        names = f"{json.dumps(self.binding)}, {json.dumps(self.key)}"
        return f"({page_script('connect')})({names}, {self._prepare});"


class InjectedLink(DocumentLink):
    """A document in which the script reports the tools; see `PageLink`.

    `reports` is the bucket of its tab; a document that reports when it is empty is not heard any more.
    """

    def __init__(self, context: DocumentContext, key: str, reports: TokenBucket) -> None:
        super().__init__(context, key)
        self._reports = ReportedTools(reports)

    @property
    def tools(self) -> Mapping[str, PageTool]:
        """Its tools by their names in the page."""
        return self._reports.tools

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out of its tools, and why."""
        return self._reports.notes

    def report(self, payload: str) -> str:
        """Take what the script says; returns the kind of the message, empty if it does not count."""
        if self._reports.is_muted:
            return ""
        return self._reports.take(read_message(payload) if len(payload) <= MOST_MESSAGE else {})
