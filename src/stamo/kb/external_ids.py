"""What entities are called elsewhere, such as their Wikidata ids."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stamo.kb.storage import StringTable, open_array, save_array
from stamo.system.arrays import Int32, Int64

_TABLE = "external_ids"
EXTERNAL_IDS = "external_id_by_entity.npy"
_ENTITIES = "entity_by_external_id.npy"


class ExternalIds:
    """The ids of entities, found in both directions.

    Args:
        table: The distinct ids.
        by_entity: The number of each entity's id, -1 where it has none, shape (entities,).
        entities: The entity of each id, shape (ids,).
    """

    def __init__(self, table: StringTable, by_entity: Int32, entities: Int32) -> None:
        self._table, self._by_entity, self._entities = table, by_entity, entities

    @staticmethod
    def build(directory: Path, n_entities: int, entities: Int32, ids: Sequence[str]) -> int:
        """Write the id of each of `entities`; an id or an entity that comes again is left out.

        Returns:
            How many entities have an id.
        """
        number_by_id: dict[str, int] = {}
        by_entity = np.full(n_entities, -1, dtype=np.int32)
        firsts: list[int] = []
        for entity, text in zip(entities.tolist(), ids, strict=True):
            if by_entity[entity] < 0 and text not in number_by_id:
                by_entity[entity] = number_by_id[text] = len(firsts)
                firsts.append(entity)
        StringTable.build(directory, _TABLE, list(number_by_id))
        save_array(directory / EXTERNAL_IDS, by_entity, np.int32)
        save_array(directory / _ENTITIES, np.array(firsts, dtype=np.int32), np.int32)
        return len(firsts)

    @classmethod
    def open(cls, directory: Path) -> ExternalIds:
        """Map what `build` wrote."""
        return cls(
            StringTable.open(directory, _TABLE),
            open_array(directory / EXTERNAL_IDS),
            open_array(directory / _ENTITIES),
        )

    def texts(self, entities: Int64) -> list[str]:
        """Return the id of each entity, empty where it has none."""
        numbers = np.asarray(self._by_entity[entities])
        known = iter(self._table.texts(numbers[numbers >= 0]))
        return [next(known) if number >= 0 else "" for number in numbers.tolist()]

    def find(self, ids: Sequence[str]) -> Int32:
        """Return the entity of each id, -1 where none has it."""
        numbers = self._table.find_many(ids)
        known = numbers >= 0
        numbers[known] = self._entities[numbers[known]]
        return numbers
