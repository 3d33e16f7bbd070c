"""The tuner: from validated signals and a model of the service to the knobs. Pure: no I/O, no clock."""
