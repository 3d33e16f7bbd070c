"""`python3 -m cluster`: one entry for the embedded cluster and its images."""

from __future__ import annotations

import argparse
import sys

from cluster import images, lifecycle, serving
from cluster.errors import ClusterError
from cluster.lifecycle import Tier
from cluster.progress import say
from cluster.settings import Settings, from_environment


def main(arguments: list[str]) -> int:
    """Run one command; 1 with an explanation when it cannot be done."""
    options = _parser().parse_args(arguments)
    try:
        result: int = options.run(from_environment(), options)
    except ClusterError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted: run the same command again to go on from here")
        return 130
    return result


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
    print(f"{'COMPONENT':<24} {'PID':>8} {'MEMORY':>8}  STATE")
    for item in statuses:
        state = "healthy" if item.healthy else ("unhealthy" if item.pid else "not running")
        print(f"{item.name:<24} {item.pid or '-':>8} {item.memory_mib:>4} MiB  {state}")
    return 0


def _kubeconfig(settings: Settings, _: argparse.Namespace) -> int:
    if not settings.kubeconfig.exists():
        raise ClusterError(f"cluster {settings.name} is down: run `python3 -m cluster up` first")
    print(settings.kubeconfig)
    return 0


def _environment(settings: Settings, _: argparse.Namespace) -> int:
    print(f"export KUBECONFIG={settings.kubeconfig}")
    print(f'export PATH="{settings.bin}:$PATH"')
    return 0


def _images_build(settings: Settings, options: argparse.Namespace) -> int:
    for name in options.names or images.IMAGES:
        print(images.build(settings, name))
    return 0


def _images_load(settings: Settings, options: argparse.Namespace) -> int:
    for name in options.names or images.IMAGES:
        images.load(settings, name)
    return 0


def _serving(settings: Settings, _: argparse.Namespace) -> int:
    print(serving.folder(settings))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m cluster", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: object, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(run=function)
        return added

    up = command("up", _up, "start the cluster, or what is missing of it")
    up.add_argument("--tier", choices=[tier.value for tier in Tier], default=Tier.FULL.value)
    command("down", _down, "tear the cluster down to nothing; the cache stays")
    command("status", _status, "say what runs")
    command("kubeconfig", _kubeconfig, "print the path of the kubeconfig")
    command("env", _environment, "print shell lines that put kubectl, helm and the kubeconfig into reach")
    command("serving", _serving, "print the folder of the engines' Python packages, for mounting at /opt/serving")
    image_commands = command("images", _images_build, "build and load the project's images").add_subparsers(
        required=True, metavar="COMMAND"
    )
    for name, function, text in (
        ("build", _images_build, "build images whose inputs changed (default: all)"),
        ("load", _images_load, "build images and put them into the running cluster (default: all)"),
    ):
        added = image_commands.add_parser(name, help=text, description=text)
        added.add_argument("names", nargs="*", choices=[[], *images.IMAGES], metavar="NAME")
        added.set_defaults(run=function)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
