"""Files of entities and judged mentions, made from the gold of the embedded world."""

import csv
import json


def write_files(world, world_corpus, folder, n_judged=40):
    """Judge the first mention of each entity's name in the first documents that have one."""
    entities, lines = {}, []
    for entity in world.emerging:
        key = entity.aliases[0]
        entities[key] = {
            "name": entity.id,
            "aliases": list(entity.aliases),
            "about": f"what people call {entity.id}",
        }
        n = 0
        for document in world_corpus:
            first = next((m for m in document.mentions if m.surface in entity.aliases), None)
            if first is not None and n < n_judged:
                n += 1
                means_it = int(first.entity == entity.id)
                lines.append((key, document.id, first.start, means_it, first.entity))
    (folder / "entities.json").write_text(json.dumps(entities))
    with (folder / "labels.tsv").open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(("alias", "document", "offset", "label", "sense"))
        writer.writerows(lines)
    return folder / "entities.json", folder / "labels.tsv"
