"""The OpenAI-compatible endpoint in front of one Triton: HTTP to its clients, gRPC to the gate."""
