"""Plans in which each item is written by one rank."""
import dataclasses

__all__ = ["dedup_tensors"]


def dedup_tensors(plans):
    """The plans with each item in one of them: of those ranks that have it the one with the fewest bytes so far."""
    owners = {}
    for i, plan in enumerate(plans):
        for item in plan.items:
            owners.setdefault(item.index, []).append((i, item))
    load, kept = [0] * len(plans), [set() for _ in plans]
    for index, found in owners.items():
        i, item = min(found, key=lambda pair: (load[pair[0]], pair[0]))
        load[i] += item.tensor_storage_size() or 1
        kept[i].add(index)
    return [dataclasses.replace(plan, items=[item for item in plan.items if item.index in kept[i]]) for i, plan in enumerate(plans)]
