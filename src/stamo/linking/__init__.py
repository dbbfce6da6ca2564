"""Mention detection and the end-to-end linker."""
