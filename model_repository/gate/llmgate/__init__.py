"""The gate: the weightless Triton model that clients call. It admits requests to engines and relays their tokens."""
