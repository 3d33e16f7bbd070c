"""The torch engine: scheduler, block manager, model, attention and sampler, each readable alone."""

import os

# A thread of libgomp that waits for the others spins, by default for milliseconds. Where cores are shared, or rationed
# by a container's limit, it then burns the time of the thread it waits for: with ten other busy processes on two cores
# the matrices of a step took 95 ms asleep and 3,300 ms spinning. Read when torch is loaded, so it is set before.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# On a GPU, steps of ever other lengths would cut the memory beside weights, cache and captured steps into pieces that
# fit nothing: segments that grow are not cut (`backend:cudaMallocAsync` is the driver's own way).
if "PYTORCH_CUDA_ALLOC_CONF" not in os.environ:  # the older name, which wins
    os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
