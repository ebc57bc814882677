"""What a registered server runs in: a jail of bubblewrap for a program, a container for an image.

`jail` and `container` are the two cages, `available` says in words which of them a machine has. The rest are
their parts. What is told apart here, how a server ended, is in the words of `backends.base`.
"""
