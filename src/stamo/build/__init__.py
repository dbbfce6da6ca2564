"""From a dump to the directory of a knowledge base."""
