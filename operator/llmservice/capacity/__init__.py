"""What fits on an accelerator: catalogues of accelerators and models, and the memory plan."""
