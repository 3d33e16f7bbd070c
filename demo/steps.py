"""The steps of the demo, in order. Each shows the command a reader would type, and checks what it shows."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import dataclass

from demo.terminal import DemoError, Terminal
from llmservice.local.ports import free_ports

NAMESPACE = "demo"
SYSTEM_NAMESPACE = "triton-llm"
RELEASE = "llmservice-operator"
QUESTION = "What is the capital of France?"


@dataclass(frozen=True)
class Ports:
    """Free ports of this host that lead to a service."""

    http: int
    grpc: int
    openai: int

    @classmethod
    def free(cls) -> Ports:
        """Ports that nobody uses now."""
        return cls(*free_ports(3))


def install(terminal: Terminal, values: str, take_ownership: bool) -> None:
    """The operator by helm."""
    terminal.title("Install the operator", "two replicas, one leads; RBAC writes Secrets and never reads them")
    options = f" -f {values}" if values else ""
    options += " --take-ownership" if take_ownership else ""
    terminal.run(
        f"helm upgrade --install {RELEASE} charts/llmservice-operator -n {SYSTEM_NAMESPACE} --create-namespace"
        f"{options} --wait --timeout 180s | sed -n 1,4p"
    )
    terminal.run(f"kubectl -n {SYSTEM_NAMESPACE} get pods")


def serve(terminal: Terminal) -> None:
    """One service, from apply to Serving."""
    terminal.title("Apply an LLMService", "SmolLM2-135M-Instruct on CPU, continuous batching, real tritonserver")
    if terminal.ask(f"kubectl get namespace {NAMESPACE} -o jsonpath='{{.status.phase}}'") == "Terminating":
        terminal.run(f"kubectl wait --for=delete namespace/{NAMESPACE} --timeout=180s")
    if not terminal.ask(f"kubectl get namespace {NAMESPACE} -o name"):
        terminal.run(f"kubectl create namespace {NAMESPACE}")
    terminal.run(f"kubectl -n {NAMESPACE} apply -f examples/smollm2.yaml")
    terminal.follow(f"kubectl -n {NAMESPACE} get llmservices", until="smollm2 True Serving", timeout=300)
    terminal.run(f"llmservice status smollm2 -n {NAMESPACE}")


def ask(terminal: Terminal) -> None:
    """Streamed answers over HTTP and gRPC."""
    terminal.title("Ask it", "through the Service, streamed token by token")
    ports = Ports.free()
    forward = (
        f"kubectl -n {NAMESPACE} port-forward service/smollm2 {ports.http}:8000 {ports.grpc}:8001 {ports.openai}:8003"
    )
    with terminal.background(forward, ready="Forwarding from"):
        body = {"messages": json.dumps([{"role": "user", "content": QUESTION}]), "stream": True, "max_tokens": 32}
        url = f"http://127.0.0.1:{ports.http}/v2/models/smollm2/generate_stream"
        terminal.run(f"curl -sN {url} -d {shlex.quote(json.dumps(body | {'temperature': 0}))} | grep .")
        terminal.note("and with NVIDIA's own gRPC client:")
        terminal.run(f"python examples/clients/stream_grpc.py 127.0.0.1:{ports.grpc} smollm2 {shlex.quote(QUESTION)}")
        terminal.note("and with any client of OpenAI's API:")
        chat = {"model": "smollm2", "messages": [{"role": "user", "content": QUESTION}], "temperature": 0}
        url = f"http://127.0.0.1:{ports.openai}/v1/chat/completions"
        terminal.run(f"curl -sS {url} -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(chat))}")


def retune(terminal: Terminal) -> None:
    """A change of max_queue_delay under load, without a restart and without a lost answer."""
    terminal.title(
        "Change max_queue_delay under load",
        "Triton can only load a model again for that; here the model without weights is loaded again, streams go on",
    )
    terminal.run(f"kubectl -n {NAMESPACE} apply -f examples/smollm2-dynamic.yaml")
    terminal.follow(
        f"kubectl -n {NAMESPACE} get llmservices smollm2-dynamic", until="smollm2-dynamic True Serving", timeout=300
    )
    ports = Ports.free()
    forward = f"kubectl -n {NAMESPACE} port-forward service/smollm2-dynamic {ports.http}:8000"
    pods = f"kubectl -n {NAMESPACE} get pods -l app.kubernetes.io/instance=smollm2-dynamic"
    before = terminal.ask(f"{pods} -o jsonpath='{{.items[*].metadata.uid}}'")
    with terminal.background(forward, ready="Forwarding from"):
        load = f"python -m demo.load http://127.0.0.1:{ports.http} smollm2-dynamic --streams 8 --seconds 40"
        with terminal.background(load) as running:
            time.sleep(4)
            for delay in ("40ms", "1ms"):
                patch = json.dumps({"spec": {"batching": {"maxQueueDelay": delay}}})
                terminal.run(f"kubectl -n {NAMESPACE} patch llm smollm2-dynamic --type merge -p '{patch}'")
                terminal.follow(
                    f"kubectl -n {NAMESPACE} get llm smollm2-dynamic -o wide --no-headers",
                    until=f" {delay} ",
                    timeout=60,
                )
            terminal.note("after a while the columns show what the load does:")
            measured = (
                f"kubectl -n {NAMESPACE} get llm smollm2-dynamic -o jsonpath='{{.status.signals.timeToFirstTokenP99}}'"
            )
            terminal.wait_for(measured, timeout=60)
            terminal.run(f"kubectl -n {NAMESPACE} get llmservices smollm2-dynamic")
            tally, _ = running.communicate(timeout=180)
    terminal.note(tally.strip())
    if " 0 failed, 0 shortened" not in tally:
        raise DemoError("answers were lost while the gate was loaded again")
    terminal.run(pods)
    if terminal.ask(f"{pods} -o jsonpath='{{.items[*].metadata.uid}}'") != before:
        raise DemoError("the pod was replaced; a change of the delay must not do that")
    terminal.run(f"kubectl -n {NAMESPACE} delete llm smollm2-dynamic")


def scale(terminal: Terminal) -> None:
    """Two replicas through /scale."""
    terminal.title("Scale to two replicas", "the scale subresource is what HPA and KEDA use, too")
    terminal.run(f"kubectl -n {NAMESPACE} scale llm smollm2 --replicas=2")
    terminal.follow(f"kubectl -n {NAMESPACE} get llmservices smollm2", until=" 2/2 ", timeout=300)


def break_spec(terminal: Terminal) -> None:
    """What a mistake looks like."""
    terminal.title("Make a mistake", "the API server itself says what is wrong, where, and what to write instead")
    patch = json.dumps({"spec": {"batching": {"maxQueueDelay": "5"}}})
    terminal.run(f"kubectl -n {NAMESPACE} patch llm smollm2 --type merge -p '{patch}'", fails=True)


def remove(terminal: Terminal) -> None:
    """Deletion leaves nothing."""
    terminal.title("Delete it", "no finalizer: deletion works even when the operator is away")
    terminal.run(f"kubectl -n {NAMESPACE} delete llm --all")
    kinds = "deployments,replicasets,pods,services,configmaps,secrets,serviceaccounts,poddisruptionbudgets"
    left = f"kubectl -n {NAMESPACE} get {kinds} -l app.kubernetes.io/managed-by=triton-llm-operator"
    deadline = time.monotonic() + 120
    while terminal.ask(f"{left} -o name") and time.monotonic() < deadline:
        time.sleep(0.5)
    terminal.run(left)
    if terminal.ask(f"{left} -o name"):
        raise DemoError("something of the service is left")
    terminal.run(f"kubectl delete namespace {NAMESPACE}")
