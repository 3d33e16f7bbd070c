"""Service + plan + repository → the Kubernetes objects that serve it. Pure builders, one object a file."""
