"""Stand for a program that runs in a fork of a prepared process: see `prefork.py`.

Run as `python -I -S launch.py SOCKET SCRIPT ARGUMENTS...`; it imports little, for it is started often.
"""

import json
import os
import signal
import socket
import sys


def main(path: str, script: str, *arguments: str) -> int:
    asked = {"script": script, "arguments": arguments, "env": dict(os.environ), "cwd": os.getcwd()}  # noqa: PTH109
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as reply:
        reply.connect(path)
        socket.send_fds(reply, [json.dumps(asked).encode()], [0, 1, 2])
        program = int.from_bytes(reply.recv(4), "big")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, _: os.kill(program, number))
        for fd in range(3):
            os.close(fd)
        return int.from_bytes(reply.recv(4), "big", signed=True)


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    os._exit(code if code >= 0 else 128 - code)
