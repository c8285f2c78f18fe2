"""Tags of operators (OpOverload.tags).  An operator's traits have the words: those of its entry, or of who
defined it."""
import enum

from tede import _C


class Tag(enum.Enum):
    """What is known of an operator, or said of it by `library.define(..., tags=)`.

    >>> tede.Tag.pointwise in tede.ops.aten.sin.default.tags
    True
    """

    core = 0
    cudagraph_unsafe = 1
    data_dependent_output = 2
    dynamic_output_shape = 3
    flexible_layout = 4
    generated = 5
    inplace = 6
    inplace_view = 7
    maybe_aliasing_or_mutating = 8
    needs_contiguous_strides = 9
    needs_exact_strides = 10
    needs_fixed_stride_order = 11
    nondeterministic_bitwise = 12
    nondeterministic_seeded = 13
    out = 14
    out_variant = 15
    pointwise = 16
    pt2_compliant_tag = 17
    reduction = 18
    view_copy = 19


def declare(full, tags):
    """The tags of an operator that is being defined."""
    tags = (tags,) if isinstance(tags, Tag) else tags
    _C._set_op_traits(full, tags=" ".join(tag.name for tag in tags))


def of(full):
    """The tags of an operator; those of aten's in the order of their names."""
    tags = [Tag[word] for word in (_C._op_traits(full)["tags"] or "").split()]
    return sorted([*tags, Tag.pt2_compliant_tag], key=lambda tag: tag.name) if full.startswith("aten::") else tags
