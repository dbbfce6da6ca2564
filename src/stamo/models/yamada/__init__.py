"""Yamada (Sec. 2.3.1)."""
