"""Other ways to link emerging entities, to compare with."""
