"""What is known of operators by their tags: OpOverload.tags.  An operator's traits have the words: those of its entry, or of who
defined it."""
from tede import _C
from tede._odds import Tag


def declare(full, tags):
    """The tags of an operator that is being defined."""
    tags = (tags,) if isinstance(tags, Tag) else tags
    _C._set_op_traits(full, None, None, " ".join(tag.name for tag in tags), None, None)


def of(full):
    """The tags of an operator; those of aten's in the order of their names."""
    tags = [Tag[word] for word in (_C._op_traits(full)["tags"] or "").split()]
    return sorted([*tags, Tag.pt2_compliant_tag], key=lambda tag: tag.name) if full.startswith("aten::") else tags
