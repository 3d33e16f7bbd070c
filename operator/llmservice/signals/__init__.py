"""Measured state: what the pods' own metrics say, with validity."""
