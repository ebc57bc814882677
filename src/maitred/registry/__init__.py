"""Find servers in a registry that speaks the MCP registry's API, and make manifests of them.

It knows no host of a registry and runs nothing: `maitred.surfaces.cli` asks the person, `admission` judges.
`entries` reads what a registry wrote, `client` fetches it, `kept_copy` keeps it, `ranking` searches it;
`launches` says how an entry can run. To add a kind of package, make a function in the table of `launches`.
"""
