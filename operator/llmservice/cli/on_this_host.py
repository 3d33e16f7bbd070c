"""Commands that need no cluster and take a while: run a service here, play a load on simulated replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llmservice.cli.options import Fleet, Output, OutputFormat


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


def simulate(
    context: typer.Context,
    engine: Annotated[
        str, typer.Option(help="llama-8b-a100, or dynamic (batches run to completion).")
    ] = "llama-8b-a100",
    load: Annotated[
        str, typer.Option(help="days, steady, steps, bursts, conversation, code or long-context.")
    ] = "days",
    days: Annotated[int, typer.Option(min=1, max=31, help="How many days, of the load of that name.")] = 3,
    trace: Annotated[
        Path | None, typer.Option(help="Requests or rates of your own: Azure LLM CSV, Mooncake JSONL, or time_s,rps.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="Column of a rate series; rps when omitted.")] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, max=1_000_000, help="Mean requests/s; the load's own when omitted.")
    ] = None,
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
    from llmservice.cli.played_load import Request
    from llmservice.cli.simulate import simulate_request

    sources = ((name, context.get_parameter_source(name)) for name in context.params)
    given = frozenset(f"--{name.replace('_', '-')}" for name, source in sources if source and source.name != "DEFAULT")
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
        days,
        given,
    )
    simulate_request(request, as_json=output is OutputFormat.JSON)
