"""Servers that are pods of a cluster: `MCPServer` resources become registered servers.

`cluster_api` lists and watches resources, `server_resource` makes manifests of them, and `server_watch` gives
these to the gateway. Nothing here starts pods or writes into the cluster. To add a key of a manifest that an
annotation may set, name it in `server_resource`.
"""
