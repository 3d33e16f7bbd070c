"""A discrete-event model of a service and its replicas, to try the tuner on: seeded, without a clock, without I/O.

A `Plant` holds replicas of one engine kind and counts what real ones count; `Sensors` make of it the signals that the
tuner gets from Prometheus, faults included; `simulate` drives both through an arrival process under any controller.
"""
