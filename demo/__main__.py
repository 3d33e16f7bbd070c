"""`make demo`; CONTEXT=NAME: a cluster of yours, VALUES=FILE: the chart values for it, KEEP=1: leave it running."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cluster.errors import ClusterError
from cluster.settings import from_environment
from demo import steps
from demo.alone import alone, claim
from demo.terminal import DemoError, Terminal

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Runs every step; 0 when each did what it shows, 1 where one did not or another demo runs."""
    os.chdir(ROOT)
    context = os.environ.get("CONTEXT", "")
    try:
        settings = from_environment()
        with alone(settings.cache, context or settings.name):
            removable = not context and claim(settings)
            return _show(context, os.environ.get("VALUES", ""), removable=removable)
    except (ClusterError, DemoError) as error:
        print(f"the demo did not start: {error}", file=sys.stderr)
        return 1


def _show(context: str, values: str, *, removable: bool) -> int:
    """The steps, and the clean-up whatever came of them."""
    embedded, keep = not context, bool(os.environ.get("KEEP"))
    terminal = Terminal({"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"})
    before = "" if embedded else _current_context()
    try:
        if embedded:
            terminal, values = _embedded_cluster(terminal)
        else:
            terminal.run(f"python3 -m cluster check --context {context}")
            terminal.run(f"kubectl config use-context {context}")
        steps.install(terminal, values, take_ownership=embedded)
        for step in (steps.serve, steps.ask, steps.retune, steps.scale, steps.break_spec, steps.remove):
            step(terminal)
        terminal.title("Done", "each line that begins with $ can be copied")
    except DemoError as error:
        print(f"\nthe demo stopped: {error}\nRun `make demo` again to go on; KEEP=1 leaves the cluster for a look.")
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; run `make demo` again to go on")
        return 130
    finally:
        _clean(terminal, embedded=embedded, removable=removable, keep=keep)
        if before and before != context:
            terminal.run(f"kubectl config use-context {before}")
    return 0


def _current_context() -> str:
    """The context that kubectl uses now; empty where there is none."""
    command = ["kubectl", "config", "current-context"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _embedded_cluster(terminal: Terminal) -> tuple[Terminal, str]:
    """A real Kubernetes on this host, the images in it, and a terminal that reaches it."""
    terminal.title("Start a real Kubernetes on this machine", "etcd, API server, kubelet, containerd; built once")
    terminal.run("python3 -m cluster prepare")
    terminal.run("python3 -m cluster up")
    terminal.run("python3 -m cluster images load")
    settings = from_environment()
    path = f"{settings.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    reaching = terminal.reaching({"PATH": path, "KUBECONFIG": str(settings.kubeconfig)})
    terminal.run('eval "$(python3 -m cluster env)"')
    reaching.run("kubectl get nodes")
    return reaching, terminal.ask("python3 -m cluster values")


def _clean(terminal: Terminal, *, embedded: bool, removable: bool, keep: bool) -> None:
    if keep:
        terminal.note("left running, as KEEP=1 asks; `make down` removes the embedded cluster")
    elif embedded and not removable:
        terminal.title("Clean up", "the cluster ran before this demo, so it stays; `make down` removes it")
        terminal.run(f"helm uninstall {steps.RELEASE} -n {steps.SYSTEM_NAMESPACE} --ignore-not-found")
    elif embedded:
        terminal.title("Clean up", "the cluster goes, what was built stays in the user cache")
        terminal.run("python3 -m cluster down")
    else:
        terminal.title("Clean up")
        terminal.run(f"helm uninstall {steps.RELEASE} -n {steps.SYSTEM_NAMESPACE} --ignore-not-found")
        terminal.run("kubectl delete crd llmservices.triton-llm.dev --ignore-not-found")


if __name__ == "__main__":
    sys.exit(main())
