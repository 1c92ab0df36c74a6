"""The HTTP side of a node: is it alive, is it ready, and its metrics."""

import errno
from collections.abc import Callable

from aiohttp import web

from mainspring.engine.checks.digests import Digests, digest_answer
from mainspring.engine.metrics import Metrics

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def _why(error: OSError, host: str, port: int) -> str:
    """An address in use is one matter, a host that is none of this machine's another."""
    where = f"http_host:http_port {host}:{port} cannot be listened on"
    if error.errno == errno.EADDRINUSE:
        return f"{where}: the address is in use. Mend: set http_port to a free port"
    reason = error.strerror or str(error)
    return (
        f"{where} ({reason}). Mend: set http_host to an address of this machine, http_port to one you may use"
    )


class PortTaken(Exception):
    """The HTTP address cannot be listened on."""


class Web:
    """Serves until `aclose`. `not_ready` gives the reason why the node is not ready, or an empty string.

    digests: those of the wheel that is at work, None before there is one.
    """

    def __init__(
        self,
        metrics: Metrics,
        not_ready: Callable[[], str],
        digests: Callable[[], Digests | None],
        *,
        host: str,
        port: int,
    ) -> None:
        self._metrics = metrics
        self._not_ready = not_ready
        self._digests = digests
        self._host = host
        self._port = port
        app = web.Application()
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._render),
                web.get("/api/digest", self._digest),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)

    async def start(self) -> None:
        """Listen; raises `PortTaken` naming the setting."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise PortTaken(_why(error, self._host, self._port)) from error

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def aclose(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        if reason := self._not_ready():
            return web.Response(status=503, text=f"not ready: {reason}\n")
        return web.Response(text="ready\n")

    async def _digest(self, request: web.Request) -> web.Response:
        return await digest_answer(self._digests(), request.query.get("shard"))

    async def _render(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics.render(), headers={"Content-Type": _PROMETHEUS})
