"""What the operator wrote: settings, where they come from, and how a file of them is changed in place.

It starts nothing and keeps no state. `settings` has one dataclass a section, `document` and `load` read,
`interpolate` resolves references, `edit` and `edit_choices` write, `clients` is about files of MCP clients.
To add a setting, add a field to its class in `settings` and a row to docs/configuration.md.
"""
