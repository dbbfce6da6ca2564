"""Speed and memory on the machine at hand."""
