"""`llmservice` and `kubectl llmservice`."""
