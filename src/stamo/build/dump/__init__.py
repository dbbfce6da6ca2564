"""Dumps of a wiki: XML, its pages, its streams, what the site says of itself."""
