"""TRITUNE: the tuner on simulated replicas, beside what people use instead and beside what hindsight could do."""
