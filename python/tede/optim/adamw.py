"""AdamW (Loshchilov & Hutter, 2017)."""
from ._functional import adamw  # noqa: F401  the same as a function
from .adam import Adam
from .._docs import completed

__all__ = ["AdamW", "adamw"]


@completed
class AdamW(Adam):
    """`Adam` whose weight decay shrinks parameters directly: ``p *= 1 - lr * weight_decay`` before each step
    (Loshchilov and Hutter, 2017, "Decoupled Weight Decay Regularization").

        <params>
        lr: the learning rate.
        betas: how much of the running means of gradient and square stays at each step.
        eps: keeps the quotient finite.
        weight_decay: how strong; give biases and norms a group without, as is usual.
        amsgrad: divide by the largest mean of squares so far.
        <switches>
        <capturable>

    >>> model = nn.Linear(3, 1)
    >>> optimizer = tede.optim.AdamW([{"params": [model.weight]}, {"params": [model.bias], "weight_decay": 0}], lr=1e-2)
    >>> model(tede.ones(4, 3)).pow(2).mean().backward()
    >>> optimizer.step()
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
                 amsgrad: bool = False, *, maximize: bool = False, foreach=None, capturable: bool = False,
                 differentiable: bool = False, fused=None) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
                         capturable=capturable, differentiable=differentiable, fused=fused, decoupled_weight_decay=True)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
