"""The faulty server with a witness: every line it is sent is appended to a file before it is handled.

Run as `python -I -S spy_server.py LOG MODE [ARGUMENT ...]`. An empty line in the file marks each start.
"""

import json
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib starts slowly
sys.path.insert(0, os.path.join(FOLDER, "..", "support"))  # noqa: PTH118 - as above

import faulty_server  # type: ignore[import-not-found]  # noqa: E402 - found through the line before


def main(log: str, arguments: list[str]) -> None:
    handle = faulty_server.Server.handle

    def witness(line: str) -> None:
        with open(log, "a", encoding="utf-8") as file:  # noqa: PTH123 - as above
            file.write(line + "\n")

    def spy(server: object, message: dict[str, object]) -> None:
        witness(json.dumps(message))
        handle(server, message)

    faulty_server.Server.handle = spy
    witness("")
    faulty_server.main(arguments)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
