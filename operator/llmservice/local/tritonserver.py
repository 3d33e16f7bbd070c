"""Runs a real tritonserver on this host: free ports, readiness with a deadline, a stop that leaves nothing behind."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from llmservice.local.installation import Installation, find_installation
from llmservice.local.ports import free_ports, is_free
from llmservice.local.warden import Warden

LOG_TAIL_LINES = 40
POLL_SECONDS = 0.05
PORT_ATTEMPTS = 3
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Triton puts its regions


class TritonserverError(RuntimeError):
    """The server did not start, or died; the message ends with the tail of its log."""


class TritonServer:
    """One tritonserver over `repository` in explicit model control, as a context manager.

    Entering returns when every model of `load_models` is ready or raises `TritonserverError`. Leaving sends SIGTERM,
    lets requests finish for `exit_timeout` seconds, then kills. Ports left None are chosen free. `env` is added to this
    process's environment, `arguments` to the command line. Without `log` the log goes to a file of its own, removed
    at the end unless the server failed. `python` is the interpreter whose packages gate and engine import, by default
    this one's. Where this process ends without leaving, even by SIGKILL, the server ends with it and `leftovers`, files
    and folders, are removed.
    """

    def __init__(
        self,
        repository: Path,
        *,
        load_models: Sequence[str] = (),
        arguments: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
        http_port: int | None = None,
        grpc_port: int | None = None,
        metrics_port: int | None = None,
        start_timeout: float = 120,
        exit_timeout: float = 30,
        installation: Installation | None = None,
        python: Path | None = None,
        leftovers: Sequence[Path] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.repository = repository
        self._load_models = tuple(load_models)
        self._arguments = tuple(arguments)
        self._env = dict(env or {})
        self._start_timeout = start_timeout
        self._exit_timeout = exit_timeout
        self._installation = installation or find_installation()
        self._python = python or Path(sys.executable)
        self._leftovers = tuple(leftovers)
        self._clock = clock
        self._own_log = log is None
        self.log = log or Path(tempfile.mkstemp(prefix="tritonserver-", suffix=".log")[1])
        self._asked_ports = (http_port, grpc_port, metrics_port)
        self._choose_ports()
        self._process: subprocess.Popen[bytes] | None = None
        self._warden: Warden | None = None
        self._log_file: IO[bytes] | None = None

    @property
    def http_url(self) -> str:
        """Base URL of the HTTP endpoint, such as `http://127.0.0.1:8000`."""
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def grpc_address(self) -> str:
        """`host:port` of the gRPC endpoint."""
        return f"127.0.0.1:{self.grpc_port}"

    @property
    def metrics_url(self) -> str:
        """URL of the metrics page."""
        return f"http://127.0.0.1:{self.metrics_port}/metrics"

    @property
    def pid(self) -> int:
        """Process id of the running server; raises `TritonserverError` when it was not started."""
        if self._process is None:
            raise TritonserverError("the tritonserver is not running")
        return self._process.pid

    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._own_log and kind is None:
            self.log.unlink(missing_ok=True)

    def start(self) -> None:
        """Starts the process and waits until it is ready; once more, where somebody else got a port it had chosen."""
        for attempt in reversed(range(PORT_ATTEMPTS)):
            self.launch()
            try:
                self._wait_ready()
                return
            except TritonserverError:
                self.stop()
                if not attempt or not self._lost_a_port():
                    raise
                self._choose_ports()
            except BaseException:
                self.stop()
                raise

    def launch(self) -> None:
        """Starts the process and returns at once; `ready` tells when it serves."""
        self._log_file = self.log.open("ab")
        self._process = subprocess.Popen(
            self.command(),
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._log_file,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # its stubs share the group, so that a kill reaches them too
        )
        self._warden = Warden(self._process.pid, SHARED_MEMORY / self._shm_prefix(), self._leftovers)

    def terminate(self) -> None:
        """Asks the server to take no more requests and to end when those it has are answered; returns at once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the server and its stubs where they stand; `stop` still has to clear up."""
        if self._process is not None and self.running():
            os.killpg(self._process.pid, signal.SIGKILL)

    def stop(self) -> int | None:
        """Ends the process and its stubs; returns its exit status, None when it was not running."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(self._exit_timeout + 5)
        except subprocess.TimeoutExpired:
            process.kill()
        with contextlib.suppress(ProcessLookupError):  # stubs of a server that was killed
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if self._warden is not None:
            self._warden.release()
            self._warden = None
        if self._log_file is not None:
            self._log_file.close()
        for region in SHARED_MEMORY.glob(f"{self._shm_prefix()}*"):
            region.unlink(missing_ok=True)
        return process.returncode

    def command(self) -> list[str]:
        """The command line."""
        return [
            str(self._installation.binary),
            f"--model-repository={self.repository}",
            f"--backend-directory={self._installation.backends}",
            "--model-control-mode=explicit",
            "--disable-auto-complete-config",
            "--strict-readiness=true",
            *(f"--load-model={name}" for name in self._load_models),
            *(f"--{kind}-address=127.0.0.1" for kind in ("http", "grpc", "metrics")),
            f"--http-port={self.http_port}",
            f"--grpc-port={self.grpc_port}",
            f"--metrics-port={self.metrics_port}",
            f"--exit-timeout-secs={int(self._exit_timeout)}",
            f"--backend-config=python,shm-region-prefix-name={self._shm_prefix()}",
            *self._arguments,
        ]

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """The last lines of the log, without the tables the server prints."""
        log = self.log.read_text(errors="replace") if self.log.exists() else ""
        said = [line for line in log.splitlines() if line and line[0] not in "+|"]
        return "\n".join(said[-lines:])

    def _choose_ports(self) -> None:
        free = free_ports(len(self._asked_ports))
        ports = (asked or mine for asked, mine in zip(self._asked_ports, free, strict=True))
        self.http_port, self.grpc_port, self.metrics_port = ports

    def _lost_a_port(self) -> bool:
        """Whether a port that was chosen here is another's, now that the server has ended."""
        ports = zip(self._asked_ports, (self.http_port, self.grpc_port, self.metrics_port), strict=True)
        return any(asked is None and not is_free(port) for asked, port in ports)

    def _shm_prefix(self) -> str:
        return f"llmservice_triton_{self.http_port}_"

    def _environment(self) -> dict[str, str]:
        env = os.environ | self._env
        paths = [str(path) for path in self._installation.library_paths]
        env["LD_LIBRARY_PATH"] = ":".join([*paths, *filter(None, [env.get("LD_LIBRARY_PATH")])])
        # The stub takes its packages from the first python3 in PATH.
        env["PATH"] = f"{self._python.parent}:{env.get('PATH', os.defpath)}"
        # A byte-code file in a version directory would turn an in-place change into a full reload.
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        return env

    def _wait_ready(self) -> None:
        deadline = self._clock() + self._start_timeout
        while not self.ready():
            if not self.running():
                code = self._process.returncode if self._process else None
                raise TritonserverError(f"tritonserver ended with status {code} at start:\n{self.log_tail()}")
            if self._clock() > deadline:
                raise TritonserverError(
                    f"tritonserver was not ready within {self._start_timeout:g} s:\n{self.log_tail()}"
                )
            time.sleep(POLL_SECONDS)

    def ready(self) -> bool:
        """Whether every model that was asked for is loaded; asks the server, for at most 5 seconds."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=5)
        try:
            connection.request("GET", "/v2/health/ready")
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()
