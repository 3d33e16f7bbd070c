"""Pools that need no words: every accelerator of the catalogue that the fleet names is one."""

from __future__ import annotations

from fnmatch import fnmatchcase

from llmservice.api.fleet import FleetDefaults, Pool
from llmservice.capacity.accelerators import MIG_MARK, Accelerator, accelerators, find_accelerator, profiles_of


def with_built_in_pools(fleet: FleetDefaults) -> FleetDefaults:
    """`fleet` with a pool for each accelerator that `builtInPools` names; a pool of the fleet's own stays as it is."""
    built_in = {
        name: built_in_pool(accelerator)
        for name, accelerator in accelerators().items()
        if any(fnmatchcase(name, pattern) for pattern in fleet.built_in_pools)
    }
    return fleet.model_copy(update={"pools": {**built_in, **fleet.pools}})


def built_in_pool(accelerator: Accelerator) -> Pool:
    """The pool of all nodes that GPU Feature Discovery labels with `accelerator`'s product."""
    return Pool(accelerator=accelerator.name, resource=accelerator.resource, node_selector=dict(accelerator.labels))


def resource_of(pool: Pool) -> str:
    """The extended resource that one accelerator of the pool is; empty on a CPU."""
    known = find_accelerator(pool.accelerator)
    return pool.resource or (known.resource if known else "")


def pools_in_words(fleet: FleetDefaults) -> str:
    """The pools there are, those of MIG slices in short."""
    whole = sorted(name for name in fleet.pools if MIG_MARK not in name)
    sliced = sorted({name.partition(MIG_MARK)[0] + MIG_MARK + "…" for name in fleet.pools if MIG_MARK in name})
    return ", ".join([*whole, *sliced]) or "(none)"


def unknown_pool_words(name: str, fleet: FleetDefaults) -> str:
    """What is wrong with a pool that the fleet lacks: which profile the GPU does not have, or which pools there are."""
    gpu, mark, profile = name.partition(MIG_MARK)
    profiles = profiles_of(gpu)
    if mark and profiles and profile.replace(".me", "+me") not in profiles:
        return f"{gpu} has no MIG profile {profile!r}: use one of {', '.join(profiles)}."
    if mark and not profiles and gpu in accelerators():
        return f"{gpu} cannot be cut into MIG slices: use pool {gpu}."
    return f"There is no pool {name!r}: use one of {pools_in_words(fleet)}, or define it in the chart's fleet.pools."
