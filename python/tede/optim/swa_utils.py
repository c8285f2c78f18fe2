"""Averages of a model's weights over training: plain (SWA, Izmailov et al., 2018) and exponential (EMA)."""
import math
from copy import deepcopy

from ..nn import Module
from ..nn._native import T
from .lr_scheduler import LRScheduler, _per_group
from .._docs import completed

__all__ = ["AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
           "update_bn"]


def _check_decay(decay):
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _over_lists(averages, values, weight):
    """``average += weight * (value - average)`` for all of two lists, in place."""
    with T.no_grad():
        for average, value in zip(averages, values):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(value.to(average.dtype), weight)
            else:
                average.copy_(average + (value - average) * weight)


def get_ema_multi_avg_fn(decay=0.999):
    """A `multi_avg_fn` of `AveragedModel`: ``average = decay * average + (1 - decay) * value``, in place, for lists.
    ValueError unless decay is from 0 to 1.

    >>> ema = tede.optim.swa_utils.AveragedModel(nn.Linear(2, 1), multi_avg_fn=tede.optim.swa_utils.get_ema_multi_avg_fn(0.99))
    """
    _check_decay(decay)

    def ema_update(ema_param_list, current_param_list, _):
        _over_lists(ema_param_list, current_param_list, 1 - decay)

    return ema_update


def get_swa_multi_avg_fn():
    """A `multi_avg_fn` of `AveragedModel`: equal weight for all models so far, in place, for lists.

    >>> swa = tede.optim.swa_utils.AveragedModel(nn.Linear(2, 1), multi_avg_fn=tede.optim.swa_utils.get_swa_multi_avg_fn())
    """
    def swa_update(averaged_param_list, current_param_list, num_averaged):
        _over_lists(averaged_param_list, current_param_list, float(1 / (num_averaged + 1)))

    return swa_update


def get_ema_avg_fn(decay=0.999):
    """An `avg_fn` of `AveragedModel`: ``decay * average + (1 - decay) * value``. ValueError unless decay is from 0 to
    1.

    >>> tede.optim.swa_utils.get_ema_avg_fn(0.9)(tede.tensor(1.0), tede.tensor(2.0), 5)
    tensor(1.1000)
    """
    _check_decay(decay)

    def ema_update(ema_param, current_param, num_averaged):
        with T.no_grad():
            return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn():
    """An `avg_fn` of `AveragedModel`: equal weight for all models so far.

    >>> tede.optim.swa_utils.get_swa_avg_fn()(tede.tensor(1.0), tede.tensor(2.0), 1)
    tensor(1.5000)
    """
    def swa_update(averaged_param, current_param, num_averaged):
        with T.no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages: `update_parameters` takes in the model's present ones (Izmailov
    et al., 2018, "Averaging Weights Leads to Wider Optima and Better Generalization").

        model: is copied.
        device: where the copy lives.
        avg_fn: makes one average from (average, value, count of models before).
        multi_avg_fn: changes lists of averages in place instead; without either all models count alike.
        use_buffers: average buffers, too, instead of copying them.

    Calls go to the copy, `module`. Batch norms' statistics are to be computed anew at the end: `update_bn`.

    >>> model = nn.Linear(2, 1)
    >>> average = tede.optim.swa_utils.AveragedModel(model)
    >>> average.update_parameters(model)
    >>> average(tede.ones(3, 2)).shape, average.n_averaged
    (tede.Size([3, 1]), tensor(1))
    """

    def __init__(self, model, device: T.device | str | int | None = None, avg_fn=None, multi_avg_fn=None,
                 use_buffers: bool = False) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", T.tensor(0, dtype=T.long, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        """What the averaged model makes of its arguments."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model):
        """Take `model`'s parameters into the averages."""
        averages, values = list(self.module.parameters()), list(model.parameters())
        buffers = list(zip(self.module.buffers(), model.buffers()))
        if self.use_buffers:
            averages += [own for own, _ in buffers]
            values += [other for _, other in buffers]
        averages = [average.detach() for average in averages]
        values = [value.detach().to(average.device) for average, value in zip(averages, values)]
        count = self.n_averaged
        if count == 0:
            for average, value in zip(averages, values):
                average.copy_(value)
        elif self.avg_fn is not None:
            for average, value in zip(averages, values):
                average.copy_(self.avg_fn(average, value, count.to(average.device)))
        else:
            alike = {}
            for average, value in zip(averages, values):
                rows = alike.setdefault((average.device, average.dtype), ([], []))
                rows[0].append(average)
                rows[1].append(value)
            for (device, _), rows in alike.items():
                (self.multi_avg_fn or get_swa_multi_avg_fn())(*rows, count.to(device))
        if not self.use_buffers:
            for own, other in buffers:
                own.detach().copy_(other.detach().to(own.device))
        self.n_averaged += 1


def update_bn(loader, model, device=None):
    """Compute the running statistics of `model`'s batch norms anew, from the inputs that `loader` gives.

        loader: an iterable of tensors, or of tuples or lists whose first is the input.
        device: where the inputs go first.

    >>> model = nn.BatchNorm1d(2)
    >>> tede.optim.swa_utils.update_bn([tede.ones(4, 2)], model)
    >>> model.running_mean
    tensor([1., 1.])
    """
    from ..nn.modules.batchnorm import _BatchNorm
    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None                  # all batches count alike
    with T.no_grad():
        for input in loader:
            if isinstance(input, (list, tuple)):
                input = input[0]
            if device is not None:
                input = input.to(device)
            model(input)
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


@completed
class SWALR(LRScheduler):
    """Rates that go over to `swa_lr` within `anneal_epochs`, along a cosine or a line, and stay there.

        swa_lr: a number, or a list, one a group.
        anneal_strategy: "cos" or "linear".
        <last_epoch>

    >>> optimizer = tede.optim.SGD([nn.Parameter(tede.zeros(1))], lr=1.0)
    >>> schedule = tede.optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=1)
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch: int = -1) -> None:
        for rate, group in zip(_per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._set_anneal_func(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _set_anneal_func(self, anneal_strategy):
        self._anneal_strategy = anneal_strategy
        self.anneal_func = self._cosine_anneal if anneal_strategy == "cos" else self._linear_anneal

    @staticmethod
    def _linear_anneal(t):
        return t

    @staticmethod
    def _cosine_anneal(t):
        return (1 - math.cos(math.pi * t)) / 2

    @staticmethod
    def _get_initial_lr(lr, swa_lr, alpha):
        return swa_lr if alpha == 1 else (lr - alpha * swa_lr) / (1 - alpha)

    def _share(self, step):
        """How much of the way to `swa_lr` is behind us at `step`."""
        return self.anneal_func(max(0, min(1, step / max(1, self.anneal_epochs))))

    def get_lr(self):
        self._check_called_by_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        return [group["swa_lr"] * now + self._get_initial_lr(group["lr"], group["swa_lr"], before) * (1 - now)
                for group in self.optimizer.param_groups]

    def state_dict(self):
        return {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "anneal_func")}

    def load_state_dict(self, state_dict):
        self.__dict__.update(state_dict)
        self._set_anneal_func(self._anneal_strategy)
