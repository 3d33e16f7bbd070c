"""The Kubernetes operator that runs language models on NVIDIA Triton and keeps them tuned."""

__version__ = "0.1.0"
