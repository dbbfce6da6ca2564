"""Make a brand-new entity linkable from twenty labels and a pile of text."""

__version__ = "0.1.0"
