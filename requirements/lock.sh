#!/usr/bin/env bash
# Pins what pyproject.toml asks for, with hashes and without naming an index, so that a mirror serves as well.
set -euo pipefail
cd "$(dirname "$0")/.."
compile() { # output arguments...
  local output=$1; shift
  uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11 "$@" -o "$output"
}
compile requirements/dev.txt --extra serving --extra tritonserver --extra simulator --group dev pyproject.toml
compile requirements/operator.txt pyproject.toml -c requirements/dev.txt
compile requirements/serving.txt --extra serving pyproject.toml -c requirements/dev.txt
# The Triton image has the server and what its Python backend imports, nothing of the client's world.
printf '%s\n' numpy nvidia-pytriton | compile requirements/triton.txt --no-deps -c requirements/dev.txt -
# vLLM on a CPU, in an environment of its own. Its wheel asks for a torch that is on no public index but is the same
# one, and a package that it never loads for text for a numpy that tritonserver's Python backend crashes with.
compile requirements/vllm.txt --group vllm --overrides requirements/vllm-overrides.txt
# The tests' S3 server, likewise in an environment of its own.
compile requirements/s3.txt --group s3
