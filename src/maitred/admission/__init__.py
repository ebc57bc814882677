"""Admission: which servers, and which parts of them, the gateway lets in.

A manifest is read (`manifest_reader`), looked at by layers (`checks`), and approved by a person or the policy
(`approval`). What a server publishes later is compared with what was approved (`definition`, `judge`,
`gatekeeper`). To add a check, add a file to `checks`. Who may call a server is decided in `access`.
"""
