"""The weights step: a model's files, from a hub or a bucket, into a cache that pods share."""
