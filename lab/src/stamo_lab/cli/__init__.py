"""The command `stamo-lab`."""
