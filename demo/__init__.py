"""`make demo`: the main job, step by step, each step a line that a reader can copy."""
