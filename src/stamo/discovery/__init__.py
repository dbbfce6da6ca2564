"""Discovery: which new entities a stream of text speaks of, before anyone asks."""
