"""Files, byte streams and worker processes: one of each."""
