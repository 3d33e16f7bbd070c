"""The chat template, which every engine shares."""

from llmserving.chat import ChatTemplate

__all__ = ["ChatTemplate"]
