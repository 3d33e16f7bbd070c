"""The torch engine: scheduler, block manager, model, attention and sampler, each readable alone."""
