"""The guide to chains for agents: how to write one, and which modules there are at present.

Pure: names and limits go in, Markdown comes out, within a budget of tokens. `docs/chains.md` is the long form
of this guide; the tests run the programs of both.
"""

from collections.abc import Mapping
from typing import Final

from maitred.disclosure.budget import estimate, pack

GUIDE_TOKENS: Final = 1_500
_RESERVE_TOKENS = 40  # for the words around the list, and the number of modules that did not fit


def chain_guide(
    modules: Mapping[str, str], *, calls: int, in_flight: int, cpu_s: float, budget_tokens: int = GUIDE_TOKENS
) -> str:
    """Write the guide to chains.

    Args:
        modules: Module name -> server; the text names a server only if its module has another name.
        calls: The maximum number of calls in a chain.
        in_flight: The maximum number of calls at once.
        cpu_s: Seconds of computing time of a chain.
        budget_tokens: The maximum price of the guide; the modules get what the text leaves.
    """
    text = _GUIDE.format(calls=calls, in_flight=in_flight, cpu_s=f"{cpu_s:g}")
    if not modules:
        return f"{text}None yet.\n"
    names = [name if name == server else f"{name} ({server})" for name, server in modules.items()]
    packed = pack(names, budget_tokens - estimate(text) - _RESERVE_TOKENS)
    more = f", and {packed.left} more: see `maitred://servers`" if packed.left else ""
    return f"{text}{', '.join(packed.items)}{more}.\n"


_GUIDE: Final = """\
# Chains: many calls, one answer

`call_tool_chain` runs a short Python program. Use it to loop over calls, to feed one result into the next
call, or to keep the few lines you need of a long result: only the program's result reaches you. For one call,
use `call_tool`.

```python
import asyncio
import tracker

found = await tracker.list_issues(state="open")

async def owner(issue):
    try:
        return (await call_tool("tracker__get_user", {{"name": issue["owner"]}}))["email"]
    except RuntimeError as error:
        return str(error)

emails = await asyncio.gather(*[owner(issue) for issue in found["issues"]])
return sorted(set(emails))
```

- A tool is `await call_tool("server__tool", {{…}})`, by the name that search shows, or a function of its
  server's module: `server__tool` is `server.tool(name=value)`. What cannot stand in a Python name becomes
  `_`; a name that Python needs gets one behind it: the server `time` is `import time_`.
- A result is the tool's structured content, else its text, parsed if it is a JSON object or list.
- A tool that fails raises RuntimeError. `gather` has no return_exceptions: catch inside of each function.
- The result of the chain is what `return` or the last line gives: plain JSON. `print` is only a log.
- Not there: files, network, inheritance, custom exceptions, yield, del, async with, async for, create_task,
  wait_for.
- There: functions, closures, comprehensions, f-strings, try, and asyncio, json, re, math, datetime, time,
  itertools, functools, collections, dataclasses, decimal, csv, random, hashlib, base64, typing.
- Limits: {calls} calls, {in_flight} at once, {cpu_s} s of computing, 30 s in all (`timeout_ms`, at most
  60,000), 1 MB a result, 10 MB together. Let tools filter and page by their own parameters.
- `dry_run: true` checks names and types, and calls nothing.
- A result over `max_output_size` (20,000 characters) is cut; `full_uri` has the whole.
- What was called before a chain failed stays done; `calls` in the answer lists it.
- Without Python: a JSON list of {{"tool": "server__tool", "arguments": {{…}}}} is carried out in order.

Modules at present: """
