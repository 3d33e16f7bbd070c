"""The wire to one Triton server: load, configuration, statistics and health, all over gRPC."""
