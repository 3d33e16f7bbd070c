"""The list of cases."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from llmservice.kube.client import KubeClient

Case = Callable[[KubeClient, str], Awaitable[None]]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function
