"""The loop: observe, decide, apply, report."""
