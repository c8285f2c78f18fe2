"""What the Python key does with operators that are made of others.

Most run as those others, and __torch_dispatch__ sees these. KEPT are shown as they are: PyTorch counts them among the basic
ones. BODIES are basic here, but not there."""
import tede

KEPT = frozenset("""
    _adaptive_avg_pool2d _foreach_add.Tensor _foreach_clone _foreach_copy_ _foreach_lerp.List _foreach_lerp.Scalar
    _foreach_lerp.ScalarList _foreach_max _foreach_mm _foreach_norm.Scalar _foreach_pow.List _foreach_pow.Scalar
    _foreach_pow.ScalarAndTensor _foreach_pow.ScalarList _foreach_powsum.Scalar _foreach_zero_
    _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d addbmm addr arange arange.start
    as_strided_scatter avg_pool2d avg_pool3d bartlett_window bartlett_window.periodic binary_cross_entropy
    binary_cross_entropy_with_logits blackman_window blackman_window.periodic block_diag celu channel_shuffle cholesky
    cholesky_inverse cholesky_solve clamp clamp.Tensor clamp_max clamp_min col2im count_nonzero diagonal_scatter dist
    div.Tensor_mode eye eye.m fft_fftfreq fft_rfftfreq fill.Tensor glu hamming_window hamming_window.periodic
    hamming_window.periodic_alpha hamming_window.periodic_alpha_beta hann_window hann_window.periodic huber_loss
    kaiser_window kaiser_window.beta kaiser_window.periodic ldexp.Tensor lerp.Scalar linalg_cross linalg_eig
    linalg_householder_product linalg_lstsq linalg_lu linalg_matrix_exp linspace.Scalar_Tensor
    linspace.Tensor_Scalar linspace.Tensor_Tensor logit logspace.Scalar_Tensor logspace.Tensor_Scalar
    logspace.Tensor_Tensor lu_unpack masked_fill.Tensor masked_fill_.Tensor masked_scatter_backward
    max.dim_max mean min.dim_min mse_loss mvlgamma nan_to_num narrow_copy native_dropout_backward norm.Scalar
    norm.ScalarOpt_dim norm.ScalarOpt_dim_dtype norm.ScalarOpt_dtype pixel_shuffle pixel_unshuffle polar range
    range.step reflection_pad1d reflection_pad2d reflection_pad3d renorm replication_pad1d replication_pad2d
    replication_pad3d resize_as_ rot90 rsub.Tensor scalar_tensor select_scatter slice_scatter smooth_l1_loss
    soft_margin_loss softshrink special_modified_bessel_i0 special_modified_bessel_i1 split.Tensor stack sum t t_
    trace triangular_solve unsafe_split.Tensor unsafe_split_with_sizes upsample_bicubic2d upsample_bilinear2d
    upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d vdot
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


BODIES = {"linear": linear, "matmul": matmul, "square": lambda self: tede.ops.aten.pow.Tensor_Scalar(self, 2)}
