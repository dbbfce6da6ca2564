"""Labels: the log, the advisor, export, and the terminal."""
