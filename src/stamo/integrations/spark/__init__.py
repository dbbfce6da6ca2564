"""Spark as the engine of a build, of collecting and of linking, for more than one machine."""
