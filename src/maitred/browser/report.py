"""Looks at the browser of a server for `maitred doctor`: found, version, sandbox, and WebMCP there or not.

It starts the browser once. That the domain `WebMCP` of the protocol answers proves nothing, so a page with a
secure address is asked whether it has the interface. Its answer to the request is made here: nothing is
loaded from the network.
"""

import base64
from contextlib import suppress
from dataclasses import replace
from typing import Final

import anyio
from anyio import to_thread

from maitred.backends.base import find
from maitred.backends.process import Warden
from maitred.browser.cdp import CdpClosedError, CdpError, CdpTimeoutError, Params
from maitred.browser.errors import BrowserFaultError
from maitred.browser.executable import find_chrome, version_of
from maitred.browser.launch import LaunchRequest, RunningBrowser, launch
from maitred.model.browsers import BrowserOptions, BrowserReport

_PAGE: Final = "https://maitred.invalid/"
_FEATURE: Final = "--enable-features=WebMCP"
_LOAD_S: Final = 20.0


async def look_at_browser(server: str, options: BrowserOptions, processes: Warden) -> BrowserReport:
    """Start the browser of a server without a window, and report on it."""
    program = version = ""
    try:
        program = await to_thread.run_sync(find_chrome, options.executable)
        version = await to_thread.run_sync(version_of, program)
        request = LaunchRequest(headless=True, extra_args=(_FEATURE,))
        fresh = replace(options, profile="")  # another browser may use the persistent one now
        async with launch(request, fresh, processes) as running:
            webmcp = await _has_webmcp(running)
    except Exception as error:
        known = find(error, BrowserFaultError)
        if known is None:
            raise
        return BrowserReport(
            server=server, program=program, version=version, sandbox=options.sandbox, fault=str(known)
        )
    return BrowserReport(
        server=server, program=program, version=version, sandbox=options.sandbox, webmcp=webmcp
    )


async def _has_webmcp(running: RunningBrowser) -> bool:
    """Whether a page with a secure address has `document.modelContext`."""
    connection = running.connection
    with suppress(CdpError, CdpClosedError, CdpTimeoutError):
        made = await connection.send("Target.createTarget", {"url": "about:blank"})
        attaching = {"targetId": made["targetId"], "flatten": True}
        session = (await connection.send("Target.attachToTarget", attaching))["sessionId"]
        loaded = anyio.Event()
        body = base64.b64encode(b"<!doctype html><title>maitred</title>").decode()

        def answer(params: Params) -> None:
            response = {"requestId": params["requestId"], "responseCode": 200, "body": body}
            connection.post("Fetch.fulfillRequest", response, session)

        connection.on(session, "Fetch.requestPaused", answer)
        connection.on(session, "Page.loadEventFired", lambda _: loaded.set())
        await connection.send("Page.enable", {}, session)
        await connection.send("Fetch.enable", {}, session)
        await connection.send("Page.navigate", {"url": _PAGE}, session)
        with anyio.move_on_after(_LOAD_S):
            await loaded.wait()
        asked = {"expression": "isSecureContext && 'modelContext' in document"}
        return bool((await connection.send("Runtime.evaluate", asked, session))["result"].get("value"))
    return False
