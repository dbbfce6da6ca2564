"""Documents, mentions, the tokenizer and the readers."""
