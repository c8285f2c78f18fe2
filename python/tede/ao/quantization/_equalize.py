"""Cross-layer equalization: neighbouring layers exchange factors of their channels, so that each channel's range is the same in both.

``second(relu(first(x)))`` stays what it is where a channel of the first is divided by what the second's is multiplied with."""
import copy

import tede
from tede import nn
from tede.ao.nn import intrinsic as nni

__all__ = ["set_module_weight", "set_module_bias", "has_bias", "get_module_weight", "get_module_bias", "max_over_ndim", "min_over_ndim",
           "channel_range", "get_name_by_module", "cross_layer_equalization", "process_paired_modules_list_to_name",
           "expand_groups_in_paired_modules_list", "equalize", "converged"]

_supported_types = {nn.Conv2d, nn.Linear, nn.Conv1d}
_supported_intrinsic_types = {nni.ConvReLU2d, nni.LinearReLU, nni.ConvReLU1d}
_all_supported_types = _supported_types | _supported_intrinsic_types


def _layer(module):
    """The one that has the weight."""
    return module if type(module) in _supported_types else module[0]


def set_module_weight(module, weight):
    _layer(module).weight = nn.Parameter(weight)


def set_module_bias(module, bias):
    _layer(module).bias = nn.Parameter(bias)


def has_bias(module):
    return _layer(module).bias is not None


def get_module_weight(module):
    return _layer(module).weight


def get_module_bias(module):
    return _layer(module).bias


def max_over_ndim(input, axis_list, keepdim=False):
    """The largest elements over dimensions."""
    return input.amax(list(axis_list), keepdim) if len(axis_list) else input


def min_over_ndim(input, axis_list, keepdim=False):
    """The least elements over dimensions."""
    return input.amin(list(axis_list), keepdim) if len(axis_list) else input


def channel_range(input, axis=0):
    """How far the elements of each index of a dimension are apart."""
    others = [dim for dim in range(input.dim()) if dim != axis % input.dim()]
    return max_over_ndim(input, others) - min_over_ndim(input, others)


def get_name_by_module(model, module):
    """A layer's name in a model."""
    for name, other in model.named_modules():
        if other is module:
            return name
    raise ValueError("module is not in the model")


def cross_layer_equalization(module1, module2, output_axis=0, input_axis=1):
    """Scale the channels between two layers so that both weights have the same range in each."""
    if type(module1) not in _all_supported_types or type(module2) not in _all_supported_types:
        raise ValueError("module type not supported:", type(module1), " ", type(module2))
    first, second = get_module_weight(module1).detach(), get_module_weight(module2).detach()
    if first.size(output_axis) != second.size(input_axis):
        raise TypeError("Number of output channels of first arg do not match number input channels of second arg")
    by = (channel_range(first, output_axis) / (channel_range(second, input_axis) + 1e-9)).sqrt()

    def along(weight, axis):
        return by.reshape([-1 if dim == axis else 1 for dim in range(weight.dim())])
    set_module_weight(module1, first / along(first, output_axis))
    set_module_weight(module2, second * along(second, input_axis))
    if has_bias(module1):
        set_module_bias(module1, get_module_bias(module1).detach() / by)


def process_paired_modules_list_to_name(model, paired_modules_list):
    """Groups of names, where groups may have the layers themselves."""
    return [[one if isinstance(one, str) else get_name_by_module(model, one) for one in group] for group in paired_modules_list]


def expand_groups_in_paired_modules_list(paired_modules_list):
    """Groups of more than two as the pairs of neighbours in them."""
    pairs = []
    for group in paired_modules_list:
        if len(group) < 2:
            raise ValueError("Group must have at least two modules")
        pairs += [[a, b] for a, b in zip(group, group[1:])]
    return pairs


def equalize(model, paired_modules_list, threshold=1e-4, inplace=True):
    """The model with each pair of layers equalized, again and again, until weights move by less than the threshold: a layer may be in two."""
    groups = process_paired_modules_list_to_name(model, paired_modules_list)
    if not inplace:
        model = copy.deepcopy(model)
    pairs = expand_groups_in_paired_modules_list(groups)
    layers = {name: module for name, module in model.named_modules() if any(name in pair for pair in pairs)}
    before = None
    while before is None or not converged(layers, before, threshold):
        before = {name: copy.deepcopy(module) for name, module in layers.items()}
        for first, second in pairs:
            cross_layer_equalization(layers[first], layers[second])
    return model


def converged(curr_modules, prev_modules, threshold=1e-4):
    """Whether the weights of two tables of layers are less than the threshold apart, by the sum of the norms."""
    if curr_modules.keys() != prev_modules.keys():
        raise ValueError("The keys to the given mappings must have the same set of names of modules")
    apart = tede.tensor(0.)
    for name, module in curr_modules.items():
        apart = apart + (get_module_weight(module).detach() - get_module_weight(prev_modules[name]).detach()).norm()
    return bool(apart < threshold)
