"""A real Kubernetes on one machine, without Docker, for the project's tests and its demonstration.

Standard library only, so that `python3 -m cluster` runs before any environment is installed.
"""
