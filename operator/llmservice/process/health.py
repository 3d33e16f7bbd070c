"""`/healthz`, `/readyz` and `/metrics` on one port."""

from __future__ import annotations

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from llmservice.process.state import ProcessState


def application(state: ProcessState, registry: CollectorRegistry) -> web.Application:
    """The three pages."""

    async def healthz(_: web.Request) -> web.Response:
        """200 unless a restart would help. An API server that is away is told, and is no reason to restart."""
        stuck = state.stuck
        body = {
            "alive": not stuck,
            "reason": stuck,
            "loopLagSeconds": round(state.loop_lag, 3),
            "apiRoundTripSeconds": _rounded(state.round_trip, 3),
            "secondsSinceApiAnswer": _rounded(state.seconds_since_answer, 1),
            "leader": state.leads(),
        }
        return web.json_response(body, status=503 if stuck else 200)

    async def readyz(_: web.Request) -> web.Response:
        """200 once the start-up checks have passed; a standby is ready, too."""
        return web.json_response({"ready": state.started}, status=200 if state.started else 503)

    async def metrics(_: web.Request) -> web.Response:
        """The metrics in Prometheus' text form."""
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    return app


async def serve(app: web.Application, host: str, port: int) -> web.AppRunner:
    """Starts serving; `cleanup()` of what is returned ends it. Raises OSError when the port is taken."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner


def _rounded(seconds: float | None, digits: int) -> float | None:
    return None if seconds is None else round(seconds, digits)
