"""The steps of a call, one file each; `maitred.wiring.call_steps` has their order.

A step gets what it needs through its constructor, as small functions and protocols, and knows no gateway and
no other step. To add one: a class with `async def __call__(self, call, proceed)`, and one line in that list.
A step that only looks at a call may be a plain method: it declares `-> Awaitable[Answer]` and returns
`proceed(call)`.
"""
