"""Isolation of registered servers: programs run in bubblewrap, images in containers of Docker or Podman.

The package decides nothing about trust: the specification of a server says whether it is isolated.
Programs: `jail` with `seccomp`, `cgroups` and `mounts`. Images: `container` with `engine_api`, `engine`,
`images` and `scan`.
To add a container engine, implement the protocol `Engine` and name it in `engine_api.candidates`.
"""
