"""The generator of the embedded world: an invented encyclopaedia and later documents about it.

Everything here is made up: names are built from syllables, sentences from our own templates.
"""

from stamo_lab.world.generate import generate_world, pack_world
from stamo_lab.world.pile import WorldSettings

__all__ = ["WorldSettings", "generate_world", "pack_world"]
