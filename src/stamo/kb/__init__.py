"""The knowledge base - dump, aliases, links, vectors and entity packs."""
