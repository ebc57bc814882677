"""The yardstick of `bench/tiers.py`: a FastAPI application that answers constant bytes, served as maitred is.

Run as `python -m bench.bare NAME=SIZE...`; `/NAME` answers so many bytes. Prints its address when it listens.
"""

import gc
import signal
import sys

import anyio
from fastapi import FastAPI, Response

from maitred.config.settings import Http
from maitred.surfaces.http.serve import serve_http


def make_app(sizes: dict[str, int]) -> FastAPI:
    """One route a name."""
    app = FastAPI()
    for name, size in sizes.items():
        _add(app, name, b"x" * size)
    return app


def _add(app: FastAPI, name: str, body: bytes) -> None:
    @app.get(f"/{name}")
    async def constant() -> Response:
        return Response(body, media_type="application/json")


async def main(sizes: dict[str, int]) -> None:
    """Serve until SIGTERM."""
    stop = anyio.Event()

    async def ended() -> None:
        with anyio.open_signal_receiver(signal.SIGTERM) as signals:
            async for _ in signals:
                stop.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ended)
        gc.freeze()
        await serve_http(make_app(sizes), Http(port=0), stop=stop, ready=lambda url: print(url, flush=True))
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    pairs = [argument.split("=") for argument in sys.argv[1:]]
    anyio.run(main, {name: int(size) for name, size in pairs})
