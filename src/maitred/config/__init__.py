"""The operator's configuration: settings, their file, and the references in their values.

It reads and edits files and starts nothing. `settings` has one class a section, `load` checks a file, `edit`
changes it, `clients` imports from other programs. To add a setting, add a field with its default to
`settings`.
"""
