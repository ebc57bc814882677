"""The web interface: pages for a person, made on the server, under `/ui`.

It parses requests, calls `Gateway` and makes HTML; it decides nothing, and it needs no JavaScript.
`mount` is all that others import; Jinja and the screens load with the first page. One folder is one screen.
To add a screen, write a folder with a `SCREEN` and its template, and list it in `screens`.
"""
