"""Why something does not serve, in words that name the cause and the next action."""
