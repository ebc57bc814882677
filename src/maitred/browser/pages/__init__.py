"""The tools that web pages register, as a source of tools: found in open tabs, listed by origin, and called.

`watcher` finds documents of allowed origins in a browser, `injection` and `native` learn the tools of one,
and `document_link` calls them; with `dial_in` a document comes by itself. `open_pages` joins the tools of
all, and `backend` is the server of the gateway. It does not open pages.
To add a way into pages, write a `PageLink` (`links`) and have it put into `OpenPages`.
"""
