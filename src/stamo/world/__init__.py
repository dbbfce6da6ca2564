"""The embedded default world: an invented encyclopaedia and the later documents about it.

Everything here is made up: names are built from syllables, sentences from our own templates.
"""

from stamo.world.generate import generate_world
from stamo.world.settings import World, WorldPaths, WorldSettings

__all__ = ["World", "WorldPaths", "WorldSettings", "generate_world"]
