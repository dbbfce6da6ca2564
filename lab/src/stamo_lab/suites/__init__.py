"""Benchmark suites that anyone can rebuild from a dump and a pile of text."""
