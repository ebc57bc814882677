"""Skip what needs packages of an extra, without importing them: every worker collects every file."""

from importlib.util import find_spec

import pytest


def need(*modules: str, reason: str = "the extra `llm` is not installed") -> None:
    """Skip the module or test that calls this if a module is not installed."""
    if any(find_spec(module) is None for module in modules):
        pytest.skip(reason, allow_module_level=True)
