"""Entity packs: the pack, its bytes, and θ(e*) to and from it."""
