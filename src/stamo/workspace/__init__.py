"""The folder of one emerging entity - collect, label, learn, report."""
