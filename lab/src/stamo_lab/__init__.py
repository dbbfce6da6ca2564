"""The paper and its comparison: suites, baselines, published numbers, tables, figures, benches."""
