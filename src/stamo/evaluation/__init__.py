"""Metrics, benchmark suites, baselines, tables and figures."""
