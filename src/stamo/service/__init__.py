"""The web service and its pages."""
