"""Text and tokens, which every engine shares."""

from llmserving.tokenizer import REPLACEMENT, Detokenizer, TextTokenizer, end_tokens

__all__ = ["REPLACEMENT", "Detokenizer", "TextTokenizer", "end_tokens"]
