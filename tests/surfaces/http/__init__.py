"""The HTTP API, over the network and in this process."""
