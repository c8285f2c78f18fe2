"""What the Python key does with operators that are made of others.

Most run as those others, and __torch_dispatch__ sees these. KEPT are shown as they are: PyTorch counts them among the basic
ones. BODIES are basic here, but not there."""
import tede

_COMPOSITE = 16384         # TD_OP_COMPOSITE
KEPT = frozenset("""
    _adaptive_avg_pool2d _aminmax _aminmax.dim _conj_copy _conj_physical _foreach_abs _foreach_abs_ _foreach_acos
    _foreach_acos_ _foreach_add.List _foreach_add.Scalar _foreach_add.ScalarList _foreach_add.Tensor _foreach_add_.List
    _foreach_add_.Scalar _foreach_add_.ScalarList _foreach_add_.Tensor _foreach_addcdiv.Scalar _foreach_addcdiv.ScalarList
    _foreach_addcdiv.Tensor _foreach_addcdiv_.Scalar _foreach_addcdiv_.ScalarList _foreach_addcdiv_.Tensor
    _foreach_addcmul.Scalar _foreach_addcmul.ScalarList _foreach_addcmul.Tensor _foreach_addcmul_.Scalar
    _foreach_addcmul_.ScalarList _foreach_addcmul_.Tensor _foreach_asin _foreach_asin_ _foreach_atan _foreach_atan_
    _foreach_ceil _foreach_ceil_ _foreach_clamp_max.List _foreach_clamp_max.Scalar _foreach_clamp_max.ScalarList
    _foreach_clamp_max_.List _foreach_clamp_max_.Scalar _foreach_clamp_max_.ScalarList _foreach_clamp_min.List
    _foreach_clamp_min.Scalar _foreach_clamp_min.ScalarList _foreach_clamp_min_.List _foreach_clamp_min_.Scalar
    _foreach_clamp_min_.ScalarList _foreach_clone _foreach_copy_ _foreach_cos _foreach_cos_ _foreach_cosh _foreach_cosh_
    _foreach_div.List _foreach_div.Scalar _foreach_div.ScalarList _foreach_div.Tensor _foreach_div_.List
    _foreach_div_.Scalar _foreach_div_.ScalarList _foreach_div_.Tensor _foreach_erf _foreach_erf_ _foreach_erfc
    _foreach_erfc_ _foreach_exp _foreach_exp_ _foreach_expm1 _foreach_expm1_ _foreach_floor _foreach_floor_ _foreach_frac
    _foreach_frac_ _foreach_lerp.List _foreach_lerp.Scalar _foreach_lerp.ScalarList _foreach_lerp_.List
    _foreach_lerp_.Scalar _foreach_lerp_.ScalarList _foreach_lgamma _foreach_lgamma_ _foreach_log _foreach_log10
    _foreach_log10_ _foreach_log1p _foreach_log1p_ _foreach_log2 _foreach_log2_ _foreach_log_ _foreach_max
    _foreach_maximum.List _foreach_maximum.Scalar _foreach_maximum.ScalarList _foreach_maximum_.List
    _foreach_maximum_.Scalar _foreach_maximum_.ScalarList _foreach_minimum.List _foreach_minimum.Scalar
    _foreach_minimum.ScalarList _foreach_minimum_.List _foreach_minimum_.Scalar _foreach_minimum_.ScalarList _foreach_mm
    _foreach_mul.List _foreach_mul.Scalar _foreach_mul.ScalarList _foreach_mul.Tensor _foreach_mul_.List
    _foreach_mul_.Scalar _foreach_mul_.ScalarList _foreach_mul_.Tensor _foreach_neg _foreach_neg_ _foreach_norm.Scalar
    _foreach_pow.List _foreach_pow.Scalar _foreach_pow.ScalarAndTensor _foreach_pow.ScalarList _foreach_pow_.List
    _foreach_pow_.Scalar _foreach_pow_.ScalarList _foreach_powsum.Scalar _foreach_reciprocal _foreach_reciprocal_
    _foreach_round _foreach_round_ _foreach_rsqrt _foreach_rsqrt_ _foreach_sigmoid _foreach_sigmoid_ _foreach_sign
    _foreach_sign_ _foreach_sin _foreach_sin_ _foreach_sinh _foreach_sinh_ _foreach_sqrt _foreach_sqrt_ _foreach_sub.List
    _foreach_sub.Scalar _foreach_sub.ScalarList _foreach_sub_.List _foreach_sub_.Scalar _foreach_sub_.ScalarList
    _foreach_tan _foreach_tan_ _foreach_tanh _foreach_tanh_ _foreach_trunc _foreach_trunc_ _foreach_zero_
    _native_batch_norm_legit _native_batch_norm_legit.no_stats _neg_view_copy _safe_softmax _unsafe_index.Tensor
    _unsafe_index_put _unsafe_masked_index _unsafe_masked_index_put_accumulate _upsample_bicubic2d_aa
    _upsample_bilinear2d_aa _upsample_lanczos2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d
    _upsample_nearest_exact3d addbmm addbmm_ addr addr_ arange arange.start as_strided_copy as_strided_scatter avg_pool2d
    avg_pool3d bartlett_window bartlett_window.periodic binary_cross_entropy binary_cross_entropy_with_logits
    blackman_window blackman_window.periodic block_diag celu celu_ channel_shuffle cholesky cholesky_inverse
    cholesky_solve clamp clamp.Tensor clamp_ clamp_.Tensor clamp_max clamp_max_ clamp_min clamp_min_ col2im
    constant_pad_nd count_nonzero diagonal_copy diagonal_scatter dist div.Tensor_mode div_.Tensor_mode expand_copy eye
    eye.m fft_fftfreq fft_rfftfreq fill.Tensor glu hamming_window hamming_window.periodic hamming_window.periodic_alpha
    hamming_window.periodic_alpha_beta hann_window hann_window.periodic huber_loss kaiser_window kaiser_window.beta
    kaiser_window.periodic ldexp.Tensor lerp.Scalar lerp_.Scalar linalg_cross linalg_eig linalg_householder_product
    linalg_lstsq linalg_lu linalg_matrix_exp linspace.Scalar_Tensor linspace.Tensor_Scalar linspace.Tensor_Tensor logit
    logit_ logspace.Scalar_Tensor logspace.Tensor_Scalar logspace.Tensor_Tensor lu_unpack masked_fill.Tensor
    masked_fill_.Tensor masked_scatter_backward max.dim_max max_pool2d_with_indices_backward
    max_pool3d_with_indices_backward mean min.dim_min mse_loss mvlgamma mvlgamma_ nan_to_num nan_to_num_ narrow_copy
    native_dropout_backward norm.Scalar norm.ScalarOpt_dim norm.ScalarOpt_dim_dtype norm.ScalarOpt_dtype permute_copy
    pixel_shuffle pixel_unshuffle polar polygamma_ range range.step reflection_pad1d reflection_pad2d reflection_pad3d
    renorm renorm_ replication_pad1d replication_pad2d replication_pad3d resize_as_ rot90 rsub.Tensor scalar_tensor
    select_copy.int select_scatter slice_copy.Tensor slice_scatter smooth_l1_loss soft_margin_loss softshrink
    special_modified_bessel_i0 special_modified_bessel_i1 split.Tensor split_copy.Tensor split_with_sizes_copy
    squeeze_copy squeeze_copy.dim squeeze_copy.dims stack sum t t_ t_copy trace transpose_copy.int triangular_solve
    unbind_copy.int unfold_copy unsafe_split.Tensor unsafe_split_with_sizes unsqueeze_copy upsample_bicubic2d
    upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d
    vdot view_as_complex_copy view_as_real_copy view_copy view_copy.dtype
""".split())


def linear(input, weight, bias=None):
    ops = tede.ops.aten
    if input.dim() == 2 and bias is not None:
        return ops.addmm.default(bias, input, ops.t.default(weight))
    product = matmul(input, ops.t.default(weight))
    return product if bias is None else ops.add.Tensor(product, bias)


def _folded(matrices, other):
    """A batch of matrices and one matrix: one product of its rows."""
    ops = tede.ops.aten
    *batch, columns = matrices.shape
    flat = ops.view.default(matrices, [-1, columns]) if matrices.is_contiguous() else matrices.reshape(-1, columns)
    product = ops.mm.default(flat, other) if other.dim() == 2 else ops.mv.default(flat, other)
    return ops.view.default(product, batch + ([other.shape[1]] if other.dim() == 2 else []))


def matmul(self, other):
    ops = tede.ops.aten
    m, n = self.dim(), other.dim()
    if m == 1 and n == 1:
        return ops.dot.default(self, other)
    if m == 2 and n == 1:
        return ops.mv.default(self, other)
    if m == 1 and n == 2:
        return ops.squeeze.dim(ops.mm.default(ops.unsqueeze.default(self, 0), other), 0)
    if m == 2 and n == 2:
        return ops.mm.default(self, other)
    if m >= 3 and n in (1, 2):
        return _folded(self, other)
    if m == 0 or n == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {m}D and {n}D")
    if m == 1:
        return ops.squeeze.dim(matmul(ops.unsqueeze.default(self, 0), other), -2)
    if n == 1:
        return ops.squeeze.dim(matmul(self, ops.unsqueeze.default(other, 1)), -1)
    batch = tede.broadcast_shapes(self.shape[:-2], other.shape[:-2])
    count = 1
    for size in batch:
        count *= size
    a = ops.expand.default(self, list(batch) + list(self.shape[-2:])).reshape(count, *self.shape[-2:])
    b = ops.expand.default(other, list(batch) + list(other.shape[-2:])).reshape(count, *other.shape[-2:])
    return ops.view.default(ops.bmm.default(a, b), list(batch) + [self.shape[-2], other.shape[-1]])


def dropout(input, p, train, whole_channels=False, times=lambda x, noise: tede.ops.aten.mul.Tensor(x, noise)):
    """The mask is drawn by an operator of its own, so that modes see what depends on the random state."""
    ops = tede.ops.aten
    if p == 0 or not train or input.numel() == 0:
        return input
    if not 0 < p < 1:           # all dropped, or the error
        return NotImplemented if p != 1 else times(input, ops.zeros.default([], dtype=input.dtype, device=input.device))
    if whole_channels:
        if input.dim() < 2:
            return NotImplemented
        noise = ops.new_empty.default(input, [*input.shape[:2]] + [1] * (input.dim() - 2))
    else:
        noise = ops.empty_like.default(input)
    return times(input, ops.div_.Scalar(ops.bernoulli_.float(noise, 1 - p), 1 - p))


def dropout_(self, p, train, whole_channels=False):
    return dropout(self, p, train, whole_channels, lambda x, noise: tede.ops.aten.mul_.Tensor(x, noise))


BODIES = {"linear": linear, "matmul": matmul, "square": lambda self: tede.ops.aten.pow.Tensor_Scalar(self, 2), "dropout": dropout,
          "dropout_": dropout_, "feature_dropout": lambda input, p, train: dropout(input, p, train, True),
          "feature_dropout_": lambda self, p, train: dropout_(self, p, train, True)}


def entry(space, name, overload, flags):
    """For the Python key: the overload, a body of other operators or None, and whether the core has one that is run."""
    shown = getattr(getattr(getattr(tede.ops, space), name), overload or "default")
    full = name + ("." + overload if overload else "")
    if space != "aten":
        return shown, None, False
    body = BODIES.get(full)
    return shown, body, body is None and bool(flags & _COMPOSITE) and full not in KEPT
