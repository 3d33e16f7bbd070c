"""The vLLM driver: vLLM's asynchronous engine behind the gate."""
