"""NVIDIA's memory model for the cases on standard input: runs in an environment of its own, offline.

`aiconfigurator` (the former name of `aisimulate`, whose wheels are on no public index) and the operator pin different
pydantic and numpy versions, so it is asked as a program: a JSON list of cases in, a JSON list of answers out.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
logging.disable(logging.CRITICAL)


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """Bytes and tokens of one accelerator; `error` where the reference finds no room or cannot model the case."""
    # By name, since the linters' environment lacks the package.
    estimator: Any = importlib.import_module("aiconfigurator_core.sdk.memory").KVCacheEstimator
    try:
        found = estimator.from_request(
            case["folder"],
            case["system"],
            "vllm",
            case["version"],
            max_num_tokens=case["step_tokens"],
            max_batch_size=256,
            tp_size=case["tensor"],
            moe_tp_size=case["tensor"],
            moe_ep_size=1,
            gemm_quant_mode=case["weights"],
            moe_quant_mode=case["experts"],
            kvcache_quant_mode=case["kv"],
        )
        told = found.estimate(
            is_of_free=False, fraction=case["fraction"], gpu_memory_capacity_bytes_override=case["memory_bytes"]
        )
        # Of a mixture of experts it adds up the operations of a prefill without the output layer.
        weights = found.breakdown["weights_bytes"] + case["output_layer_bytes"]
        budget = case["fraction"] * case["memory_bytes"] - found.breakdown["non_kv_bytes"] - case["output_layer_bytes"]
        tokens = int(budget // told["kv_size_per_token_bytes"])
    except Exception as error:  # noqa: BLE001 - whatever it raises is its answer
        return {"error": f"{type(error).__name__}: {error}"}
    return {
        "weights_bytes": weights,
        "overhead_bytes": found.breakdown["non_kv_bytes"] - found.breakdown["weights_bytes"],
        "kv_bytes_per_token": told["kv_size_per_token_bytes"],
        "kv_tokens": tokens,
    }


if __name__ == "__main__":
    json.dump([answer(case) for case in json.load(sys.stdin)], sys.stdout)
