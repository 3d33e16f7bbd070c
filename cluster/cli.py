"""`python3 -m cluster`: one entry for the embedded cluster, its simulated GPU nodes and the project's images."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from cluster import contexts, housekeeping, images, lifecycle, monitoring, ports, serving, simulated, store, values
from cluster.errors import ClusterError
from cluster.lifecycle import Tier
from cluster.progress import say
from cluster.settings import Settings, from_environment

Command = Callable[[Settings, argparse.Namespace], int]


def main(arguments: list[str]) -> int:
    """Run one command; 1 with an explanation when it cannot be done."""
    try:
        options = parser().parse_args(arguments)
        run: Command = options.run
        return run(from_environment(), options)
    except ClusterError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted: run the same command again to go on from here")
        return 130


def _up(settings: Settings, options: argparse.Namespace) -> int:
    lifecycle.up(settings, Tier(options.tier))
    return 0


def _down(settings: Settings, _: argparse.Namespace) -> int:
    lifecycle.down(settings)
    return 0


def _status(settings: Settings, _: argparse.Namespace) -> int:
    statuses = lifecycle.status(settings)
    if not statuses:
        print(f"cluster {settings.name} is down")
        return 1
    print(f"{'COMPONENT':<24} {'PID':>8} {'MEMORY':>9}  STATE")
    for item in statuses:
        state = "healthy" if item.healthy else ("unhealthy" if item.pid else "not running")
        print(f"{item.name:<24} {item.pid or '-':>8} {item.memory_mib:>5} MiB  {state}")
    return 0 if lifecycle.is_up(settings, Tier.API) else 1


def _kubeconfig(settings: Settings, _: argparse.Namespace) -> int:
    if not settings.kubeconfig.exists():
        raise ClusterError(f"cluster {settings.name} is down: run `python3 -m cluster up` first")
    print(settings.kubeconfig)
    return 0


def _env(settings: Settings, _: argparse.Namespace) -> int:
    print(f"export KUBECONFIG='{settings.kubeconfig}'")
    print(f"export PATH='{settings.bin}':\"$PATH\"")
    return 0


def _nodes_add(settings: Settings, options: argparse.Namespace) -> int:
    api = simulated.running_api(settings, ports.read(settings))
    simulated.add(api, options.pool, options.count, options.gpus, tainted=options.kwok_taint)
    say(f"pool {options.pool}: {options.count} simulated nodes, {options.gpus} GPUs each")
    return 0


def _nodes_remove(settings: Settings, options: argparse.Namespace) -> int:
    api = simulated.running_api(settings, ports.read(settings))
    say(f"{simulated.remove(api, options.pool)} simulated nodes removed")
    return 0


def _nodes_list(settings: Settings, _: argparse.Namespace) -> int:
    api = simulated.running_api(settings, ports.read(settings))
    print(f"{'POOL':<32} NODES")
    for pool, count in sorted(simulated.pools(api).items()):
        print(f"{pool:<32} {count}")
    return 0


def _images_build(settings: Settings, options: argparse.Namespace) -> int:
    for name in options.names or images.IMAGES:
        tag = images.build(settings, name)
        say(f"{tag}: {images.size_megabytes(settings, name):.0f} MB compressed")
        print(tag)
    return 0


def _images_load(settings: Settings, options: argparse.Namespace) -> int:
    for name in options.names or images.IMAGES:
        images.load(settings, name)
    return 0


def _images_list(settings: Settings, _: argparse.Namespace) -> int:
    store.require_running(settings)
    for name, digest in sorted(store.images(settings).items()):
        print(f"{name:<40} {digest}")
    return 0


def _load_image(settings: Settings, options: argparse.Namespace) -> int:
    store.require_running(settings)
    store.import_archive(settings, options.archive.absolute())
    return 0


def _values(settings: Settings, _: argparse.Namespace) -> int:
    print(values.write(settings))
    return 0


def _serving(settings: Settings, _: argparse.Namespace) -> int:
    print(serving.folder(settings))
    return 0


def _prometheus_start(settings: Settings, options: argparse.Namespace) -> int:
    print(monitoring.start(settings, scraping=not options.blind))
    return 0


def _prometheus_stop(settings: Settings, _: argparse.Namespace) -> int:
    say("Prometheus is stopped" if monitoring.stop(settings) else "no Prometheus ran")
    return 0


def _prometheus_empty(settings: Settings, _: argparse.Namespace) -> int:
    print(monitoring.empty(settings))
    return 0


def _prepare(settings: Settings, _: argparse.Namespace) -> int:
    housekeeping.prepare(settings)
    return 0


def _prune(settings: Settings, options: argparse.Namespace) -> int:
    housekeeping.prune(settings, everything=options.all)
    return 0


def _check(settings: Settings, options: argparse.Namespace) -> int:
    version = contexts.check(settings, options.context, insist=options.insist)
    print(f"context {options.context}: Kubernetes {version}, may be used for the tests and the demo")
    return 0


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    top = argparse.ArgumentParser(prog="python3 -m cluster", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    tiers = [tier.value for tier in Tier]
    up = _add(commands, "up", _up, "start the cluster, or what is missing of it")
    up.add_argument("--tier", choices=tiers, default="full", help="api: no kubelet, no containers; full: a real node")
    _add(commands, "down", _down, "tear the cluster down to nothing; the cache stays")
    _add(commands, "status", _status, "say what runs; exit code 1 unless the API server is healthy")
    _add(commands, "kubeconfig", _kubeconfig, "print the path of the kubeconfig")
    _add(commands, "env", _env, 'print shell lines for `eval "$(…)"`: kubectl, helm and the kubeconfig')
    _add_nodes(_group(commands, "nodes", "simulated GPU nodes"))
    _add_images(_group(commands, "images", "the project's images"))
    _add_prometheus(_group(commands, "prometheus", "a Prometheus that scrapes the pods of every service"))
    load = _add(commands, "load-image", _load_image, "put an image archive of your own into the running cluster")
    load.add_argument("archive", type=Path, help="an oci-archive or a docker-archive")
    _add(commands, "serving", _serving, "print the folder of the engines' Python packages, to mount at /opt/serving")
    _add(commands, "values", _values, "write the chart's values for this cluster and print the file's path")
    _add(commands, "prepare", _prepare, "build everything ahead of need, side by side; starts nothing")
    prune = _add(commands, "prune", _prune, "remove what these sources no longer use from the cache")
    prune.add_argument("--all", action="store_true", help="remove everything that was built")
    check = _add(commands, "check", _check, "say whether a cluster of your own can be used: --context NAME")
    check.add_argument("--context", required=True)
    check.add_argument(
        contexts.INSIST, dest="insist", action="store_true", help="use it although its name says otherwise"
    )
    return top


Commands = argparse._SubParsersAction  # noqa: SLF001  (argparse has no public name for it)


def _add(commands: Commands[argparse.ArgumentParser], name: str, run: Command, text: str) -> argparse.ArgumentParser:
    added = commands.add_parser(name, help=text, description=text)
    added.set_defaults(run=run)
    return added


def _group(commands: Commands[argparse.ArgumentParser], name: str, text: str) -> Commands[argparse.ArgumentParser]:
    return commands.add_parser(name, help=text, description=text).add_subparsers(required=True, metavar="COMMAND")


def _add_nodes(commands: Commands[argparse.ArgumentParser]) -> None:
    add = _add(commands, "add", _nodes_add, "make the nodes of a pool, for example a100-80gb or a100-80gb-mig-3g.40gb")
    add.add_argument("--pool", required=True)
    add.add_argument("--count", type=int, default=1, help="nodes")
    add.add_argument("--gpus", type=int, default=8, help="GPUs of each node")
    add.add_argument(
        "--no-kwok-taint",
        dest="kwok_taint",
        action="store_false",
        help="only the GPU's taint, so that pods made for real GPU nodes land here",
    )
    remove = _add(commands, "remove", _nodes_remove, "remove the nodes of a pool (default: of all)")
    remove.add_argument("--pool")
    _add(commands, "list", _nodes_list, "say which pools there are")


def _add_prometheus(commands: Commands[argparse.ArgumentParser]) -> None:
    start = _add(commands, "start", _prometheus_start, "start it with what it had stored, and print its URL")
    start.add_argument("--blind", action="store_true", help="scrape nothing, so that what it has goes stale")
    _add(commands, "stop", _prometheus_stop, "end it; what it stored stays")
    _add(commands, "empty", _prometheus_empty, "lose what it stored, start it, and print its URL")


def _add_images(commands: Commands[argparse.ArgumentParser]) -> None:
    names = f"{' or '.join(images.IMAGES)}; default: all"
    for name, run, text in (
        ("build", _images_build, "build images whose inputs changed"),
        ("load", _images_load, "build images and put them into the running cluster"),
    ):
        command = _add(commands, name, run, text)
        command.add_argument("names", type=images.named, nargs="*", metavar="NAME", help=names)
    _add(commands, "list", _images_list, "say which images the cluster has")
