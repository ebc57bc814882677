"""The plain values that the parts of maitred exchange; standard library only.

No input or output, no clock and no configuration. Each module has the values of one feature: tools, servers,
access, approvals, categories, resources, usage. To add a value, add a frozen keyword-only dataclass.
"""
