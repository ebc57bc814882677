"""A server that answers as browser servers do: a text in sections, with a snapshot of a page of its own.

Run as `python -I -S page_server.py NAME [inline]`; NAME is what it calls itself. The page has 60 products. A
load gives every element another id, a click changes one line and keeps the ids. With `inline` a click answers
with the snapshot, too. `orders` answers structured content, and `fail` an error as long as a snapshot.
"""

import json
import sys
from typing import Any

TOOLS = ("browser_navigate", "browser_snapshot", "browser_click", "orders", "fail")
PRODUCTS = 60

Json = dict[str, Any]


class Page:
    """The page: how often it was loaded, and what is in the cart."""

    def __init__(self) -> None:
        self.loads = 0
        self.cart = 0
        self.notice = True

    def snapshot(self) -> str:
        self._element = 0
        lines = [f"- generic {self._ref()}:", f'  - navigation "Main" {self._ref()}:']
        lines += [f'    - link "Department {n}" {self._ref()} [cursor=pointer]' for n in range(20)]
        lines += [f'  - link "Cart ({self.cart})" {self._ref()}', f"  - list {self._ref()}:"]
        for n in range(PRODUCTS):
            lines += [
                f'    - article "Kettle {n}" {self._ref()}:',
                f"      - paragraph {self._ref()}: €{n}.90",
                f'      - button "Buy kettle {n}" {self._ref()}',
            ]
        if self.notice:
            lines += [f'  - dialog "Cookies" {self._ref()}:', f'    - button "Accept" {self._ref()}']
        return "\n".join(["### Snapshot", "```yaml", *lines, "```"])

    def _ref(self) -> str:
        self._element += 1
        return f"[ref=f{self.loads}e{self._element}]"

    def head(self, code: str) -> str:
        ran = f"### Ran Playwright code\n```js\nawait page.{code}; {'// a comment ' * 20}\n```"
        return f"{ran}\n### Page\n- Page URL: http://shop.example/{self.loads}\n- Page Title: Shop"


class Server:
    """Answers one line after the other."""

    def __init__(self, name: str, *, inline: bool) -> None:
        self._name = name
        self._inline = inline
        self._page = Page()

    def handle(self, message: Json) -> None:
        method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
        if number is not None:
            result = self._result(str(method), params)
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}) + "\n")
            sys.stdout.flush()

    def _result(self, method: str, params: Json) -> Json:
        if method == "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": self._name, "version": "1"},
            }
        if method == "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
        if method == "tools/call":
            return self._call(params["name"], params.get("arguments") or {})
        return {}

    def _call(self, tool: str, arguments: Json) -> Json:
        page = self._page
        if tool == "orders":
            items = [{"id": n, "html": f"<b>{n}</b>" * 50, "total": n * 10} for n in range(5)]
            return _text(json.dumps({"orders": items})) | {"structuredContent": {"orders": items}}
        if tool == "fail":
            return _text(f"### Error\n{page.snapshot()}") | {"isError": True}
        if tool == "browser_navigate":
            page.loads += 1
            return _text(page.head("goto('/')"))
        if tool == "browser_click":
            page.cart += 1
            page.notice = page.notice and not arguments.get("accept")
            inline = f"\n{page.snapshot()}" if self._inline else ""
            return _text(page.head("click()") + inline)
        return _text(page.head("x()").split("```\n")[-1] + f"\n{page.snapshot()}")


def _text(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}]}


if __name__ == "__main__":
    served = Server(sys.argv[1], inline="inline" in sys.argv)
    for line in sys.stdin:
        served.handle(json.loads(line))
