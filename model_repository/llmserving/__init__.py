"""What gate and engines share inside Triton: requests, the wire between them, slots and metrics."""
