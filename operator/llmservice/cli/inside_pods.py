"""Commands that pods run: the operator, the OpenAI endpoint, the step that writes the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llmservice.cli.options import Context, Fleet, Kubeconfig, LogLevel


def openai_command(
    model: Annotated[str, typer.Option(help="The gate's name in Triton: the service's.", show_default=False)],
    triton: Annotated[str, typer.Option(help="host:port of Triton's gRPC endpoint.")] = "127.0.0.1:8001",
    served_name: Annotated[
        list[str] | None, typer.Option(help="A name that clients use; repeatable. The model's when omitted.")
    ] = None,
    adapter: Annotated[list[str] | None, typer.Option(help="An adapter, a model of its own; repeatable.")] = None,
    host: Annotated[str, typer.Option(help="Address to serve on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the API.")] = 8003,
    admin_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of health and metrics.")] = 8004,
    api_keys: Annotated[Path | None, typer.Option(help="Folder with API keys, one a file.")] = None,
    tls: Annotated[Path | None, typer.Option(help="Folder with tls.crt and tls.key.")] = None,
    max_request_bytes: Annotated[int, typer.Option(min=1, help="Larger requests are refused.")] = 8 << 20,
    request_seconds: Annotated[float, typer.Option(min=0.001, help="How long an answer may take.")] = 600.0,
    drain_seconds: Annotated[float, typer.Option(min=0, help="How long answers have to end at SIGTERM.")] = 300.0,
    log_level: Annotated[LogLevel, typer.Option(case_sensitive=False, help="How much is told.")] = LogLevel.INFO,
) -> None:
    """Serve OpenAI's API in front of a Triton (what runs beside it in a pod)."""
    from llmservice.cli.openai import serve_openai
    from llmservice.openai.settings import EndpointSettings

    settings = EndpointSettings(
        triton=triton,
        model=model,
        names=tuple(served_name or [model]),
        adapters=tuple(adapter or []),
        host=host,
        port=port,
        admin_port=admin_port,
        api_keys=api_keys,
        tls=tls,
        max_request_bytes=max_request_bytes,
        request_seconds=request_seconds,
        drain_seconds=drain_seconds,
    )
    raise typer.Exit(serve_openai(settings, log_level.value))


def operator_command(
    fleet: Fleet = None,
    operator_key_file: Annotated[Path | None, typer.Option(help="File with the key of the restricted APIs.")] = None,
    namespace: Annotated[list[str] | None, typer.Option("--namespace", help="Watch only this one; repeatable.")] = None,
    lease_name: Annotated[str, typer.Option(help="Name of the leader's Lease.")] = "llmservice-operator",
    lease_seconds: Annotated[int, typer.Option(min=3, help="How long leadership lasts unrenewed.")] = 15,
    renew_seconds: Annotated[
        int, typer.Option(min=2, help="The leader gives up after this long without renewal.")
    ] = 10,
    retry_seconds: Annotated[int, typer.Option(min=1, help="Pause between attempts.")] = 2,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of /healthz, /readyz and /metrics.")] = 8080,
    log_level: Annotated[LogLevel, typer.Option(case_sensitive=False, help="How much is told.")] = LogLevel.INFO,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Run the operator (what the chart's Deployment runs)."""
    from llmservice.kube.lease import LeaseTimes
    from llmservice.process.run import run
    from llmservice.process.settings import OperatorSettings

    try:
        lease_times = LeaseTimes(lease_seconds, renew_seconds, retry_seconds)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    settings = OperatorSettings(
        fleet_file=fleet,
        operator_key_file=operator_key_file,
        namespaces=tuple(namespace or ()),
        lease_name=lease_name,
        lease_times=lease_times,
        port=port,
        log_level=log_level.value,
        context=context,
        kubeconfig=kubeconfig,
    )
    raise typer.Exit(run(settings))


def repository_write(
    rendered: Annotated[Path, typer.Option(help="Folder with the rendered files (the mounted ConfigMap).")],
    repository: Annotated[Path, typer.Option(help="Folder that becomes the Triton repository.")],
) -> None:
    """Lay out the Triton repository from its rendered files and the code of gate and engine (the init container)."""
    from llmservice.cli.repository import write_repository

    write_repository(rendered, repository)
