"""The Triton model repository of a service: rendered, written, and checked when people bring their own."""
