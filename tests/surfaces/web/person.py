"""A person at a real Chromium, driven by our own CDP client: opens pages, presses keys, reads."""

import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from tests.support.chromium import SOON_S, browser
from tests.support.waiting import eventually

from maitred.browser.cdp import CdpConnection, CdpError, connect

_CODES: Mapping[str, tuple[str, int]] = {
    "Enter": ("Enter", 13), "Tab": ("Tab", 9), "Escape": ("Escape", 27), "?": ("Slash", 191),
}  # fmt: skip

_PIXELS = """(async (png) => {
  const picture = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
  const canvas = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
  canvas.drawImage(picture, 0, 0);
  const reader = new FileReader();
  reader.readAsDataURL(new Blob([canvas.getImageData(0, 0, picture.width, picture.height).data]));
  await new Promise((ready) => (reader.onload = ready));
  return reader.result.split(",")[1];
})(%s)"""


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

    async def leave(self) -> None:
        """Close the tab: what other tests change would be fetched by its page as well."""
        await self.send("Page.close")

    async def fill(self, **fields: str) -> None:
        """Write into fields of the page by their names."""
        for name, value in fields.items():
            field = f"main [name={json.dumps(name)}]:not([hidden], [type=hidden])"
            await self.run(f"void (document.querySelector({json.dumps(field)}).value = {json.dumps(value)})")

    async def save(self, selector: str, folder: Path) -> Path:
        """Activate a link to a file, and wait until the browser has saved it."""
        await self.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        link = f"document.querySelector({json.dumps(selector)})"
        file = folder / str(await self.run(f"{link}.download"))
        await self.run(f"void {link}.click()")
        await eventually(file.exists)
        return file

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
        click = (
            "new MouseEvent('click', {bubbles: true, cancelable: true})"  # links in pictures have no click()
        )
        await self.run(f"void document.querySelector({json.dumps(selector)}).dispatchEvent({click})")
        await self.sees("!document.documentElement.dataset.before && document.readyState === 'complete'")

    async def resize(self, width: int, *, dark: bool = False, height: int = 900) -> None:
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[feature])

    async def picture(self, file: Path) -> None:
        """Write a picture of the whole page; the folder is made if it is not there."""
        await anyio.Path(file.parent).mkdir(parents=True, exist_ok=True)
        answer = await self.send(
            "Page.captureScreenshot", captureBeyondViewport=True, format="png", optimizeForSpeed=True
        )
        await anyio.Path(file).write_bytes(base64.b64decode(answer["data"]))

    async def pixels(self, width: int, height: int) -> bytes:
        """The upper left part of the page: four bytes for each pixel (red, green, blue, opacity), in rows."""
        part = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        answer = await self.send(
            "Page.captureScreenshot", captureBeyondViewport=True, format="png", clip=part
        )
        await self.open("about:blank")  # the policy of our pages forbids what follows
        return base64.b64decode(await self.run(_PIXELS % json.dumps(answer["data"])))

    async def with_javascript(self, *, on: bool) -> None:
        await self.send("Emulation.setScriptExecutionDisabled", value=not on)


@asynccontextmanager
async def chromium(*flags: str) -> AsyncIterator[CdpConnection]:
    """A browser for the tests of a module."""
    with browser(*flags) as running:
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
