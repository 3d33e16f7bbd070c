"""One replica on this host: its folders, its ports, and the tritonserver in them, which may be started again."""

from __future__ import annotations

import os
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from llmservice.local.ending import Ending, why_it_ended
from llmservice.local.errors import LocalError
from llmservice.local.host import Serving
from llmservice.local.intent import Intent
from llmservice.local.ports import free_ports, is_free
from llmservice.local.run_folders import Folders
from llmservice.local.tritonserver import TritonServer
from llmservice.repository.write import write_repository
from llmservice.workload.arguments import RESTRICTED, TOKEN_VARIABLE
from llmservice.workload.names import TOKEN_HEADER
from llmservice.workload.probes import exit_timeout

ENVIRONMENT: Final = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
"""Weights are on disk by now: an engine that asks a hub would only hang."""


@dataclass(frozen=True)
class Ports:
    """The ports on 127.0.0.1 of the server and of the OpenAI endpoint; `openai_admin` has the latter's metrics."""

    http: int
    grpc: int
    metrics: int
    openai: int
    openai_admin: int

    @classmethod
    def choose(cls, http: int | None, grpc: int | None, metrics: int | None, openai: int | None) -> Ports:
        """Free ones for those not given. Raises LocalError for one that is taken."""
        asked = {"--http-port": http, "--grpc-port": grpc, "--metrics-port": metrics, "--openai-port": openai}
        for option, port in asked.items():
            if port is not None and not is_free(port):
                raise LocalError(f"{option} {port} is taken: choose another, or leave {option} out for a free one")
        given = [port for port in asked.values() if port is not None]
        if len(set(given)) < len(given):
            raise LocalError(f"{', '.join(asked)}: one and the same twice: choose others")
        free = free_ports(5)
        return cls(http or free[0], grpc or free[1], metrics or free[2], openai or free[3], free[4])


@dataclass
class Replica:
    """The server over one repository. `token` opens the restricted APIs, as in a pod."""

    folders: Folders
    ports: Ports
    log: Path
    serving: Serving
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    _server: TritonServer | None = None
    _log_start: int = 0

    @property
    def server(self) -> TritonServer:
        """The server that was last launched."""
        if self._server is None:
            raise LocalError("no tritonserver was started")
        return self._server

    def launch(self, intent: Intent) -> TritonServer:
        """Starts the server with `intent`, its files first, and returns at once."""
        shutil.rmtree(self.folders.run / intent.service.metadata.name, ignore_errors=True)  # of processes that died
        for folder in (self.folders.work, self.folders.run):  # a cleaner of temporary files may have taken them away
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_repository(intent.repository, self.folders.work / "repository")
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._server = TritonServer(
            self.folders.work / "repository",
            load_models=[model.name for model in reversed(intent.repository.models)],
            arguments=self._arguments(),
            env={**ENVIRONMENT, TOKEN_VARIABLE: self.token},
            log=self.log,
            http_port=self.ports.http,
            grpc_port=self.ports.grpc,
            metrics_port=self.ports.metrics,
            exit_timeout=exit_timeout(intent.service.spec.drain),
            installation=self.serving.installation,
            python=self.serving.python,
            leftovers=(self.folders.work, self.folders.run),
        )
        self._server.launch()
        return self._server

    def write_token(self, file: Path) -> None:
        """Writes the token into `file`, for the eyes of this user only. Raises OSError."""
        file.unlink(missing_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(self.token)

    def kill(self) -> None:
        """Ends the server where it stands."""
        if self._server is not None:
            self._server.kill()

    def clear_up(self) -> Ending:
        """Takes away what is left of a server that ended, and says why it ended."""
        if self._server is None:
            return Ending("it was not started")
        status = self._server.stop()
        return why_it_ended(self._said(), status)

    def _said(self) -> str:
        """What the server logged; nothing where a cleaner of temporary files took its log away."""
        try:
            with self.log.open("rb") as log:
                log.seek(self._log_start)
                return log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def _arguments(self) -> list[str]:
        restricted = f"{RESTRICTED}:{TOKEN_HEADER}={self.token}"
        return [
            "--exit-on-error=true",
            "--log-format=ISO8601",
            f"--http-restricted-api={restricted}",
            f"--grpc-restricted-protocol={restricted}",
        ]
