"""What is given to a summary, as an array of NumPy."""
import tede


def make_np(x):
    """The elements of a tensor, an array or a number. bfloat16 becomes float16, a meta tensor a draw, as in PyTorch.

    NotImplementedError: for anything else, lists among them."""
    import numpy as np
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    if isinstance(x, tede.Tensor):
        if x.is_meta:
            return np.random.randn(1)
        return (x.to(tede.float16) if x.dtype == tede.bfloat16 else x).detach().cpu().numpy()
    raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")
