"""How well search finds: on labelled queries, and on the tools of the user's own catalog."""
