"""DeepED (Sec. 2.3.2)."""
