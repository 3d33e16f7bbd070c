"""Differences between two forms of a service → what each costs, and the steps that bring it about."""
