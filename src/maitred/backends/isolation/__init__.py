"""Isolation of registered servers: programs in bubblewrap, images in containers of Docker or Podman.

It decides nothing about trust: which server is isolated is written in its specification.
`jail` with `seccomp`, `cgroups` and `mounts`; `container` with `engine_api`, `engine`, `images` and `scan`.
To add a container engine, implement the protocol `Engine` and name it in `engine_api.candidates`.
"""
