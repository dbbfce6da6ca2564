"""Wikitext to plain text with the spans of its links."""
