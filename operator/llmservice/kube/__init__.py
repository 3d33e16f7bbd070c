"""The wire to the API server: one client protocol, a real one, a fake one, leadership and events."""
