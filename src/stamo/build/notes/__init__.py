"""A folder of Markdown notes as an encyclopaedia."""
