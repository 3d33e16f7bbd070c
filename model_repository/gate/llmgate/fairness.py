"""Which client's turn it is among those of one level: the one that was served least.

A counter per client adds up the tokens computed for it, an output token as much as two of a prompt, and the smallest is
next. A client that comes back from having nothing to do starts level with the least served of those who wait, or with
who was served last where none waits, so that nobody saves up turns. (Virtual token counter: Sheng et al., "Fairness in
Serving Large Language Models", OSDI 2024, algorithm 2.) Clients that do not say who they are count as one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

PROMPT_WEIGHT: Final = 1.0
OUTPUT_WEIGHT: Final = 2.0


def work(prompt_tokens: int, output_tokens: int) -> float:
    """What a request cost, in prompt tokens."""
    return PROMPT_WEIGHT * prompt_tokens + OUTPUT_WEIGHT * output_tokens


class Shares:
    """What each client of one level was served. A client is forgotten when none of its requests waits or runs."""

    def __init__(self) -> None:
        self._served: dict[str, float] = {}
        self._present: dict[str, int] = {}
        self._last_turn = 0.0

    def came(self, client: str, waiting: Iterable[str]) -> None:
        """A request of `client` came, while `waiting` clients have requests in the line."""
        least = min((self._served[other] for other in waiting if other in self._served), default=self._last_turn)
        if client not in waiting:
            self._served[client] = max(self._served.get(client, 0.0), least)
        self._present[client] = self._present.get(client, 0) + 1

    def least_served(self, waiting: Iterable[str]) -> str:
        """Whose turn it is; the first of equals."""
        return min(waiting, key=self._served.__getitem__)

    def turn(self, client: str, amount: float) -> None:
        """`client` has its turn, and is charged what that may cost."""
        self.charge(client, amount)
        self._last_turn = self._served[client]

    def charge(self, client: str, amount: float) -> None:
        """Adds what was computed for `client`, or takes back what was charged too much before."""
        if client in self._served:
            self._served[client] += amount

    def went(self, client: str) -> None:
        """A request of `client` ended, in the line or in the engine."""
        self._present[client] -= 1
        if not self._present[client]:
            del self._present[client], self._served[client]
        if not self._present:
            self._last_turn = 0.0
