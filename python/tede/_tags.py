"""What is known of operators by their tags: OpOverload.tags.

Who defines an operator says them. Those of aten's follow from what the table knows of the operator, and from the lists here."""
from tede._odds import Tag

declared = {}           # full name -> tags, of operators that were defined with some

# The operators that others are made of, as PyTorch counts them.
_CORE = set("""
    _adaptive_avg_pool2d _embedding_bag _fft_c2r _fft_r2c _local_scalar_dense _log_softmax _native_batch_norm_legit
    _native_batch_norm_legit.no_stats _pdist_forward _softmax _to_copy abs acos acosh adaptive_avg_pool1d add.Scalar
    add.Tensor addmm alias amax amin any any.dim any.dims arange.start_step argmax argmin as_strided asin asinh atan atan2
    atan2.out atanh avg_pool1d avg_pool2d avg_pool3d bitwise_and.Scalar bitwise_and.Tensor bitwise_not bitwise_or.Scalar
    bitwise_or.Tensor bitwise_xor.Scalar bitwise_xor.Tensor bmm cat ceil clamp clamp.Tensor clone col2im constant_pad_nd
    convolution convolution_backward cos cosh cumsum diagonal div.Scalar div.Scalar_mode div.Tensor div.Tensor_mode elu
    embedding embedding_dense_backward empty.memory_format empty_strided eq.Scalar eq.Tensor erf exp expand expm1 fill.Scalar
    flip floor fmod.Scalar fmod.Tensor full full_like gather ge.Scalar ge.Tensor gelu grid_sampler_2d gt.Scalar gt.Tensor
    hardtanh index.Tensor index_put index_select isinf isnan le.Scalar le.Tensor leaky_relu log log10 log1p log2 logical_and
    logical_not logical_or logical_xor lt.Scalar lt.Tensor masked_scatter max.dim max_pool2d_with_indices
    max_pool2d_with_indices_backward max_pool3d_with_indices maximum mean mean.dim min.dim minimum mm mul.Scalar mul.Tensor
    native_dropout native_group_norm native_group_norm_backward native_layer_norm native_layer_norm_backward ne.Scalar
    ne.Tensor neg nonzero permute pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor prod prod.dim_int rand randn randperm
    reciprocal reflection_pad1d reflection_pad2d reflection_pad3d relu remainder.Scalar remainder.Tensor repeat
    replication_pad2d replication_pad3d resize_ round rsqrt scalar_tensor scatter.src scatter.value scatter_add
    scatter_reduce.two select.int select_scatter sigmoid sign sin sinh slice.Tensor slice_scatter sort split_with_sizes sqrt
    squeeze.dim squeeze.dims sub.Scalar sub.Tensor sum.dim_IntList tan tanh topk trunc unsqueeze upsample_bilinear2d.vec
    upsample_nearest2d.vec var.correction var.dim view where.self
""".split())
_SEEDED = set("""
    _efficient_attention_forward _flash_attention_forward alpha_dropout dropout feature_alpha_dropout feature_dropout gru lstm
    native_dropout rand rand_like randint randint_like randn randn_like randperm rnn_relu rnn_tanh rrelu scaled_dot_product_attention
""".split())
_REDUCTIONS = set("""
    all amax amin aminmax any argmax argmin count_nonzero linalg_vector_norm logsumexp max mean min nansum norm prod std std_mean
    sum var var_mean
""".split())
_VALUES = {"_local_scalar_dense", "allclose", "equal", "is_nonzero", "item"}         # results that are no tensors
_INPLACE, _OUT, _DATA_DEPENDENT, _POINTWISE, _INPLACE_VIEW = 256, 512, 2048, 8192, 65536       # of <tede/dispatch.h>


def of(full, schema, flags):
    """The tags of an operator, in the order of their names."""
    if not full.startswith("aten::"):
        return list(declared.get(full, ()))
    name = full.removeprefix("aten::")
    family = name.partition(".")[0].rstrip("_")
    holds = (
        (Tag.core, name in _CORE), (Tag.inplace, flags & _INPLACE), (Tag.out, flags & _OUT), (Tag.pointwise, flags & _POINTWISE),
        (Tag.inplace_view, flags & _INPLACE_VIEW), (Tag.nondeterministic_seeded, "Generator" in schema or family in _SEEDED),
        (Tag.data_dependent_output, family in _VALUES),
        (Tag.dynamic_output_shape, (flags & _DATA_DEPENDENT and family not in _VALUES) or name == "index.Tensor"),
        (Tag.reduction, family in _REDUCTIONS and ".other" not in name), (Tag.view_copy, family.endswith("_copy") and family != "_to_copy"),
        (Tag.pt2_compliant_tag, True))
    return sorted((tag for tag, is_so in holds if is_so), key=lambda tag: tag.name)
