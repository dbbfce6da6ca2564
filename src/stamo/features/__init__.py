"""The entity-linking features (theta) and the encoded corpus they are looked up on."""
