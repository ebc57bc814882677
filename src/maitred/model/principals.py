"""Who asks: the name under which what somebody spends, may see and has kept is written down."""

from typing import Final

LOCAL: Final = "local"
"""The principal who is not told apart: the user of this machine."""
