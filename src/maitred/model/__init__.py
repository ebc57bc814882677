"""The plain values that packages hand to each other: frozen dataclasses of the standard library.

It has no input, no output and no behaviour beyond checking a value. One module for each subject: tools,
servers, access, approvals, categories, resources, usage.
To add a value, put it into the module of its subject; it imports no other package.
"""
