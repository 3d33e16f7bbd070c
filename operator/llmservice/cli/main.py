"""The command line: one function a command, each in a module of its own, imported only when it runs."""

from __future__ import annotations

import errno
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from llmservice.cli.weights import weights_app

app = typer.Typer(
    name="llmservice",
    help="Language models on NVIDIA Triton, from LLMService objects.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
repository_app = typer.Typer(help="The Triton repository inside a pod.", no_args_is_help=True)
app.add_typer(repository_app, name="repository")
app.add_typer(weights_app, name="weights")


class LogLevel(StrEnum):
    """How much the operator tells."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


class OutputFormat(StrEnum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"


Files = Annotated[list[Path], typer.Argument(help="YAML files; - reads standard input.", show_default=False)]
Output = Annotated[OutputFormat, typer.Option("--output", help="text or json.")]
Fleet = Annotated[Path | None, typer.Option("--fleet", help="Fleet defaults (the chart's fleet.yaml).")]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Namespace; the context's when omitted.")]
Context = Annotated[str | None, typer.Option("--context", help="kubeconfig context.")]
Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", help="kubeconfig file.", envvar="KUBECONFIG")]

NO_OUTPUT: Final = (errno.ENOSPC, errno.EIO, errno.EDQUOT)
"""What ends a command that cannot print its result."""
FILES_ARE_PBTXT: Final = "Files are config.pbtxt instead of LLMServices: explain what Triton refuses or gets wrong."


@app.command()
def validate(
    files: Files,
    pbtxt: Annotated[bool, typer.Option("--pbtxt", help=FILES_ARE_PBTXT)] = False,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Check files as the API server and the operator would: errors, warnings, and what to write instead."""
    from llmservice.cli.validate import validate_pbtxt, validate_services

    check = validate_pbtxt if pbtxt else validate_services
    raise typer.Exit(check(files, as_json=output is OutputFormat.JSON))


@app.command()
def render(
    file: Annotated[Path, typer.Argument(help="File with LLMServices; - reads standard input.", show_default=False)],
    output_dir: Annotated[Path | None, typer.Option("--output-dir", "-o", help="Write files here, else print.")] = None,
    manifests: Annotated[bool, typer.Option("--manifests", help="The Kubernetes objects as well.")] = False,
    fleet: Fleet = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Show what the operator would make of a file: the Triton repository and, on request, the manifests."""
    from llmservice.cli.render import render_files

    render_files(
        file, output_dir=output_dir, manifests=manifests, fleet_file=fleet, as_json=output is OutputFormat.JSON
    )


@app.command()
def plan(
    file: Annotated[Path, typer.Argument(help="File with LLMServices; - reads standard input.", show_default=False)],
    model: Annotated[
        Path | None, typer.Option("--model", help="The model's folder, config.json or GGUF file, when it is here.")
    ] = None,
    fleet: Fleet = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Tell what fits before a pod exists: weights, KV cache, sequences, and what each change would buy."""
    from llmservice.cli.plan import plan_files

    raise typer.Exit(plan_files(file, model_path=model, fleet_file=fleet, as_json=output is OutputFormat.JSON))


@app.command("build-engine")
def build_engine(
    file: Annotated[Path, typer.Argument(help="File with LLMServices of backend tensorrtllm.", show_default=False)],
    claim: Annotated[str, typer.Option("--claim", help="PersistentVolumeClaim that the engine goes into.")],
    path: Annotated[str, typer.Option("--path", help="Folder in the claim.")] = "engine",
    family: Annotated[str, typer.Option("--family", help="Folder of convert_checkpoint.py, when not known.")] = "",
    fleet: Fleet = None,
) -> None:
    """Print the Job that builds a TensorRT-LLM engine on a GPU of the service's pool; it cannot run here."""
    from llmservice.cli.engine_build import print_job
    from llmservice.workload.engine_build import EngineTarget

    print_job(file, EngineTarget(claim, path), family=family, fleet_file=fleet)


@app.command()
def status(
    name: Annotated[str, typer.Argument(help="Name of the LLMService.", show_default=False)],
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Tell how a service is: conditions with the next action, knobs, revisions, start-up times, recent events."""
    from llmservice.cli.status import show_status

    show_status(name, namespace, context, kubeconfig, as_json=output is OutputFormat.JSON)


@app.command("explain")
def explain_command(
    name: Annotated[str, typer.Argument(help="Name of the LLMService.", show_default=False)],
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Tell what the tuner did and why: knobs, headroom, what limits, the last decisions with their figures."""
    from llmservice.cli.explain import explain

    explain(name, namespace, context, kubeconfig, as_json=output is OutputFormat.JSON)


@app.command()
def run(
    file: Annotated[Path, typer.Option("--file", "-f", help="File with one LLMService.", show_default=False)],
    mode: Annotated[
        str | None, typer.Option(help="None, Static, Dynamic or Continuous; the file's when omitted.")
    ] = None,
    backend: Annotated[str | None, typer.Option(help="torch or vllm; the file's when omitted.")] = None,
    delay: Annotated[str | None, typer.Option(help="maxQueueDelay, such as 40ms; the file's when omitted.")] = None,
    http_port: Annotated[int | None, typer.Option(min=1, max=65535, help="A free one when omitted.")] = None,
    grpc_port: Annotated[int | None, typer.Option(min=1, max=65535, help="A free one when omitted.")] = None,
    metrics_port: Annotated[int | None, typer.Option(min=1, max=65535, help="A free one when omitted.")] = None,
    openai_port: Annotated[int | None, typer.Option(min=1, max=65535, help="A free one when omitted.")] = None,
    fleet: Fleet = None,
    log: Annotated[Path | None, typer.Option(help="Keep tritonserver's log in this file.")] = None,
    python: Annotated[
        Path | None, typer.Option(help="Interpreter with the engine's packages; this one's or .venv-vllm's if omitted.")
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="Write the token of the restricted APIs here.")] = None,
) -> None:
    """Run a service on this host, without Kubernetes, until Ctrl-C; edits of the file apply while it serves."""
    from llmservice.cli.run import run_service
    from llmservice.local.overrides import Overrides

    ports = (http_port, grpc_port, metrics_port, openai_port)
    raise typer.Exit(run_service(file, Overrides(mode, backend, delay), ports, fleet, log, python, token_file))


@app.command("openai")
def openai_command(
    model: Annotated[str, typer.Option(help="The gate's name in Triton: the service's.", show_default=False)],
    triton: Annotated[str, typer.Option(help="host:port of Triton's gRPC endpoint.")] = "127.0.0.1:8001",
    served_name: Annotated[
        list[str] | None, typer.Option(help="A name that clients use; repeatable. The model's when omitted.")
    ] = None,
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


@app.command()
def simulate(
    engine: Annotated[str, typer.Option(help="dynamic (batches run to completion) or llama-8b-a100.")] = "dynamic",
    load: Annotated[
        str, typer.Option(help="steady, steps, bursts, conversation, code, long-context or days.")
    ] = "steps",
    trace: Annotated[
        Path | None, typer.Option(help="Requests or rates of your own: Azure LLM CSV, Mooncake JSONL, or time_s,rps.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="Column of a rate series; rps when omitted.")] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Mean requests/s; the load's own when omitted.")] = None,
    inside: Annotated[str, typer.Option(help="What a rate does inside a window: linear or stepwise.")] = "linear",
    latency: Annotated[str | None, typer.Option(help="Objective: p99 of the whole request, such as 300ms.")] = None,
    first_token: Annotated[str | None, typer.Option(help="Objective: p99 until the first token.")] = None,
    per_token: Annotated[str | None, typer.Option(help="Objective: p99 of the time per output token.")] = None,
    from_prometheus: Annotated[
        str | None, typer.Option(help="URL: replay a service's own past, with its own step times, instead of a load.")
    ] = None,
    service: Annotated[str | None, typer.Option(help="NAMESPACE/NAME of that service.")] = None,
    past: Annotated[str, typer.Option(help="How far back.")] = "168h",
    batching: Annotated[str, typer.Option(help="That service's mode: Continuous or Dynamic.")] = "Continuous",
    max_sequences: Annotated[int, typer.Option(min=1, max=4096, help="That service's maxSequences.")] = 64,
    max_replicas: Annotated[int, typer.Option(min=1, max=64, help="Most replicas.")] = 16,
    cold_start: Annotated[str, typer.Option(help="From asking for a replica until it serves.")] = "3m",
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same run.")] = 0,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Ask what objectives would cost: play a load on simulated replicas, tuned and with a fixed number of them."""
    from llmservice.cli.simulate import Request, simulate_request

    request = Request(
        engine,
        load,
        trace,
        column,
        rate,
        inside,
        latency,
        first_token,
        per_token,
        max_replicas,
        cold_start,
        seed,
        from_prometheus,
        service,
        past,
        batching,
        max_sequences,
    )
    simulate_request(request, as_json=output is OutputFormat.JSON)


@app.command()
def crds() -> None:
    """Print the CustomResourceDefinition, ready for `kubectl apply --server-side -f -`."""
    from llmservice.cli.crds import print_crds

    print_crds()


@repository_app.command("write")
def repository_write(
    rendered: Annotated[Path, typer.Option(help="Folder with the rendered files (the mounted ConfigMap).")],
    repository: Annotated[Path, typer.Option(help="Folder that becomes the Triton repository.")],
) -> None:
    """Lay out the Triton repository from its rendered files and the code of gate and engine (the init container)."""
    from llmservice.cli.repository import write_repository

    write_repository(rendered, repository)


@app.command("operator")
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


def _show_version(value: bool) -> None:
    if value:
        from llmservice import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version.")
    ] = False,
) -> None:
    """Language models on NVIDIA Triton, from LLMService objects."""


def main() -> None:
    """Entry point of `llmservice` and of the kubectl plugin, which is the same program under another name."""
    try:
        app(prog_name="kubectl llmservice" if Path(sys.argv[0]).name.startswith("kubectl-") else "llmservice")
    except OSError as error:
        if error.errno not in NO_OUTPUT or error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that the interpreter does not fail at the same once more
        typer.secho(f"error: standard output: {error.strerror}", fg=typer.colors.RED, err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
