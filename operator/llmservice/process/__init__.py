"""The operator as a process: start-up checks, leadership, logs, health and metrics."""
