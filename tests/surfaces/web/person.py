"""A person at a real Chromium, driven by our own CDP client: opens pages, presses keys, reads."""

import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from tests.support.chromium import SOON_S, browser

from maitred.browser.cdp import CdpConnection, CdpError, connect

_CODES: Mapping[str, tuple[str, int]] = {
    "Enter": ("Enter", 13), "Tab": ("Tab", 9), "Escape": ("Escape", 27), "?": ("Slash", 191),
}  # fmt: skip


class Person:
    """One tab of a browser profile of its own."""

    def __init__(self, connection: CdpConnection, session: str) -> None:
        self._connection = connection
        self._session = session
        self.violations: list[str] = []
        connection.on(session, "Log.entryAdded", self._logged)

    def _logged(self, params: Mapping[str, Any]) -> None:
        entry = params["entry"]
        if entry["level"] == "error":
            self.violations.append(entry["text"])

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        return await self._connection.send(method, params, self._session)

    async def run(self, expression: str) -> Any:
        """The value of an expression in the page."""
        asked = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        answer = await self._connection.send("Runtime.evaluate", asked, self._session)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def sees(self, expression: str) -> None:
        """Wait until an expression is true in the page, whichever page that is by then."""
        asked = {"expression": f"Boolean({expression})", "returnByValue": True}
        with anyio.fail_after(SOON_S):
            while True:
                try:
                    answer = await self._connection.send("Runtime.evaluate", asked, self._session)
                except CdpError:  # the page is being replaced
                    answer = {}
                if answer.get("result", {}).get("value") is True:
                    return
                await anyio.sleep(0.02)

    async def open(self, address: str) -> None:
        """Go to an address, and wait until its page has loaded."""
        await self.run("void (document.documentElement.dataset.before = '1')")
        await self.send("Page.navigate", url=address)
        await self.sees("!document.documentElement.dataset.before && document.readyState === 'complete'")

    async def text(self, selector: str = "body") -> str:
        return str(await self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    async def press(self, key: str) -> None:
        """Press one key, wherever the focus is."""
        code, number = _CODES.get(key, (f"Key{key.upper()}", ord(key.upper()[0])))
        text = "\r" if key == "Enter" else key if len(key) == 1 else ""
        about = {"key": key, "code": code, "windowsVirtualKeyCode": number}
        await self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        await self.send("Input.dispatchKeyEvent", type="keyUp", **about)

    async def follow(self, selector: str) -> None:
        """Activate a link or a button, and wait for the page that follows."""
        await self.run("void (document.documentElement.dataset.before = '1')")
        await self.run(f"void document.querySelector({json.dumps(selector)}).click()")
        await self.sees("!document.documentElement.dataset.before && document.readyState === 'complete'")

    async def resize(self, width: int, *, dark: bool = False, height: int = 900) -> None:
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[feature])

    async def picture(self, file: Path) -> None:
        """Write a picture of the whole page."""
        answer = await self.send("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        await anyio.Path(file).write_bytes(base64.b64decode(answer["data"]))

    async def with_javascript(self, *, on: bool) -> None:
        await self.send("Emulation.setScriptExecutionDisabled", value=not on)


@asynccontextmanager
async def chromium() -> AsyncIterator[CdpConnection]:
    """A browser for the tests of a module."""
    with browser() as running:
        async with connect(running.address) as connection:
            yield connection


async def person(connection: CdpConnection) -> Person:
    """A person with a browser profile of their own."""
    made = await connection.send("Target.createBrowserContext", {"disposeOnDetach": True})
    about = {"url": "about:blank", "browserContextId": made["browserContextId"]}
    target = (await connection.send("Target.createTarget", about))["targetId"]
    attached = await connection.send("Target.attachToTarget", {"targetId": target, "flatten": True})
    found = Person(connection, attached["sessionId"])
    for domain in ("Page", "Runtime", "Log"):
        await found.send(f"{domain}.enable")
    return found
