"""Serving speed: engines side by side under the same loads."""
