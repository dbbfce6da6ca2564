"""One module for each format that documents come in."""
