"""The command line: one function a command, each in a module of its own, imported only when it runs."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from llmservice.cli.inside_pods import openai_command, operator_command, repository_write
from llmservice.cli.on_this_host import run, simulate
from llmservice.cli.options import Context, Files, Fleet, Kubeconfig, Namespace, Output, OutputFormat
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
def crds() -> None:
    """Print the CustomResourceDefinition, ready for `kubectl apply --server-side -f -`."""
    from llmservice.cli.crds import print_crds

    print_crds()


app.command()(run)
app.command("openai")(openai_command)
app.command()(simulate)
app.command("operator")(operator_command)
repository_app.command("write")(repository_write)


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
