"""Command lines that hold code, and some that look like it."""

import shlex

import pytest
from tests.admission.layers import DIGEST, POLICY, found, judge

from maitred.admission.checks.base import Policy
from maitred.admission.inline_code import code_at

CODE = [
    "sh -c 'x'",
    "bash -lc x",
    "bash -o pipefail -c x",
    "/bin/bash --norc -ec x",
    "python -c x",
    "python3.11 -cx",
    "/usr/bin/python3 -Iuc x",
    "python3 -W ignore -c x",
    "node -e x",
    "node --eval=x",
    "node -pe x",
    "node --require y -e x",
    "node --import 'data:text/javascript,x'",
    "node --import=data:text/javascript,x",
    "deno eval x",
    "deno run --allow-all data:text/javascript,x",
    "bun run -e x",
    "make -C y --eval=x",
    "expect -c x",
    "sqlite3 -cmd '.shell x'",
    "bun --print x",
    "perl -lane x",
    "perl -Mstrict -E x",
    "ruby -ne x",
    "php -r x",
    "lua5.4 -e x",
    "awk 'BEGIN { x }'",
    "env A=b python3 -c x",
    "env -S 'python -c x'",
    "timeout 5 sh -c x",
    "uv run --with y python -c x",
    "npx -c x",
    "npm exec --call x",
    "busybox sh -c x",
    "cmd /c x",
    "pwsh -EncodedCommand x",
    "'C:\\tools\\Python.exe' -c x",
    "python3.13t -c x",
    "perl5.36-x86_64-linux-gnu -e x",
    "julia --eval x",
    "elixir --eval=x",
    "octave --eval x",
    "raku -e x",
    "guile -c x",
    "rbash -c x",
    "xonsh -c x",
    "nu --commands x",
    "pwsh -Com x",
    "swipl -g x",
    "git -c alias.x=!id x",
    "nix-shell --run x",
]
NONE = [
    "python3 server.py -c config.json",
    "python3 -m server -c config.json",
    "python3 -u -X utf8 server.py --eval x",
    "node server.js -e production",
    "node --inspect=0 server.js --eval x",
    "uvx mcp-server-time --local-timezone UTC",
    "npx -y @acme/server -p 80",
    "npx -p @acme/server server",
    "deno run server.ts data:text/plain,x",
    "bun run server.ts -e x",
    "java -jar server.jar -c x",
    "bash run.sh -c x",
    "server -c x -e y",
]


@pytest.mark.parametrize("line", CODE)
def test_code_in_arguments_is_found(line: str) -> None:
    """By whatever interpreter, behind whatever runs it."""
    assert code_at(shlex.split(line)) is not None


@pytest.mark.parametrize("line", NONE)
def test_options_of_a_script_are_no_code(line: str) -> None:
    """What stands behind the first word that is no option belongs to the script."""
    assert code_at(shlex.split(line)) is None


def test_who_lists_a_program_with_any_arguments_has_not_listed_code() -> None:
    """It waits for a person, and is told what it is; the same code written out in the policy is listed."""
    text = "name: x\ncommand: python3\nargs: [-c, 'print(1)']"
    loose = judge(text, Policy(trusted_commands=("python3 **",)))
    exact = judge(
        "name: x\ncommand: python3\nargs: [-c, print(1)]", Policy(trusted_commands=("python3 -c print(1)",))
    )

    assert loose.outcome == "needs approval"
    assert [f.reason for f in loose.findings] == ["runs code that its arguments contain"]
    assert exact.outcome == "approved"


def test_an_image_with_ordinary_arguments_is_approved() -> None:
    """An option of its own program that is called like one of an interpreter asks nobody."""
    text = f"name: x\nimage: ghcr.io/acme/x@{DIGEST}\nargs: [-c, /etc/x.yaml, --eval]"

    assert found(judge(text, POLICY)) == set()
