"""Optimizers as functions over lists: adam(params, grads, exp_avgs, ..., lr=..., eps=...).

The table says which class does the work, under which keys it keeps what the lists hold, and which options may be given by
position. An entry of a list that is None has no state (momentum that isn't used).
"""
from ..nn._native import T

_FORMS = {
    "adafactor": ("Adafactor", "row_var col_var variance step", "foreach grad_scale found_inf has_complex"),
    "adadelta": ("Adadelta", "square_avg acc_delta step", "capturable foreach differentiable has_complex"),
    "adagrad": ("Adagrad", "sum step", "fused grad_scale found_inf has_sparse_grad foreach differentiable has_complex"),
    "adam": ("Adam", "exp_avg exp_avg_sq max_exp_avg_sq step",
             "foreach capturable differentiable fused grad_scale found_inf has_complex decoupled_weight_decay"),
    "adamw": ("AdamW", "exp_avg exp_avg_sq max_exp_avg_sq step",
              "foreach capturable differentiable fused grad_scale found_inf has_complex"),
    "adamax": ("Adamax", "exp_avg exp_inf step", "foreach maximize differentiable capturable has_complex"),
    "asgd": ("ASGD", "ax mu eta step", "foreach maximize differentiable capturable has_complex"),
    "nadam": ("NAdam", "exp_avg exp_avg_sq mu_product step",
              "decoupled_weight_decay foreach capturable differentiable has_complex maximize"),
    "radam": ("RAdam", "exp_avg exp_avg_sq step", "decoupled_weight_decay foreach differentiable capturable has_complex maximize"),
    "rmsprop": ("RMSprop", "square_avg grad_avg momentum_buffer step",
                "foreach maximize differentiable capturable has_complex"),
    "rprop": ("Rprop", "prev step_size step", "foreach capturable maximize differentiable has_complex"),
    "sgd": ("SGD", "momentum_buffer", "has_sparse_grad foreach fused grad_scale found_inf"),
}
_PAIRS = {"eps": ("eps1", "eps2"), "betas": ("beta1", "beta2"), "etas": ("etaminus", "etaplus"), "step_sizes": ("step_size_min", "step_size_max")}


def _form(name, cls, keys, options):
    keys, options = keys.split(), options.split()

    def form(params, grads, *lists_and_options, **by_name):
        from tede import optim
        if len(lists_and_options) < len(keys):
            raise TypeError(f"{name}() needs {len(keys)} lists after params and grads: {', '.join(keys)}")
        lists = lists_and_options[:len(keys)]
        group = {"maximize": False, "differentiable": False, "fused": None, "weight_decay": 0, "decoupled_weight_decay": name == "adamw",
                 **dict(zip(options, lists_and_options[len(keys):])), **by_name}
        for pair, (first, second) in _PAIRS.items():
            if first in group:
                group[pair] = (group.pop(first), group.pop(second))
        if "step" in keys and not all(isinstance(step, T.Tensor) for step in lists[keys.index("step")]):
            raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
        worker = getattr(optim, cls)
        worker = worker.__new__(worker)
        if name in ("adam", "adamw"):
            worker._plain(group, params, grads, *lists)
            return
        worker.state = {p: {key: column[i] for key, column in zip(keys, lists) if i < len(column) and column[i] is not None}
                        for i, p in enumerate(params)}
        if name == "sgd":
            worker._plain(group, params, grads)
            for i, p in enumerate(params):
                if group["momentum"] != 0:
                    lists[0][i] = worker.state[p]["momentum_buffer"]
            return
        for p, grad in zip(params, grads):
            worker._one(p, grad, worker.state[p], group)
    form.__name__ = form.__qualname__ = name
    form.__doc__ = f"One step of {cls} over lists: params, grads, {', '.join(keys)}; the group's options by name."
    return form


globals().update({_name: _form(_name, *_row) for _name, _row in _FORMS.items()})


def sparse_adam(params, grads, exp_avgs, exp_avg_sqs, state_steps, *, eps, beta1, beta2, lr, maximize):
    """One step of SparseAdam over lists."""
    from .sparse_adam import update
    for row in zip(params, grads, exp_avgs, exp_avg_sqs, state_steps):
        update(*row, eps, beta1, beta2, lr, maximize)
