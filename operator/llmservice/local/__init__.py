"""A service on this host without Kubernetes: the same repository, gate and engine under a real tritonserver."""
