"""Imports in a thread, and processes that fork meanwhile, as those of tests do."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, signal, sys, threading
from maitred.thread_import import _import

begun = sys.begun = threading.Event()
threading.Thread(target=_import, args=(["takes_long"],)).start()
begun.wait()
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.alarm(60)
_import(["json.tool"])
os._exit(0)
"""


def test_the_child_of_a_process_that_forks_during_an_import_can_import(tmp_path: Path) -> None:
    """In the child there is no thread that would end the import and give the lock back."""
    (tmp_path / "takes_long.py").write_text("import sys, time\nsys.begun.set()\ntime.sleep(0.5)\n")
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, timeout=300, check=False)
    assert done.returncode == 0
