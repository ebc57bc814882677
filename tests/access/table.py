"""Who may do what, as the issue and `maitred.model.access` say it, written out."""

from typing import Final

TABLE: Final = """
              viewer   agent   operator   admin
    see       yes      yes     yes        yes
    call      no       yes     yes        yes
    watch     no       no      yes        yes
    operate   no       no      yes        yes
    register  no       no      yes        yes
    approve   no       no      no         yes
    audit     no       no      no         yes
    grant     no       no      no         yes
    configure no       no      no         yes
"""
REFUSED: Final = "This is not allowed: this needs the role"

HEAD, *ROWS = [line.split() for line in TABLE.strip().splitlines()]
CASES: Final = [
    (role, ability, word == "yes") for ability, *words in ROWS for role, word in zip(HEAD, words, strict=True)
]
"""Every role with every ability, and whether it has it."""
