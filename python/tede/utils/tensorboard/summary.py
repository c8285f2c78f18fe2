"""Summaries: what an event says of one step.  They can be made apart from a writer, and given to `FileWriter.add_summary`.

TensorBoard's own protocol buffers may be given there, too: all that a summary needs is SerializeToString().
"""
import tede
from tede.utils.tensorboard._events import message

_PLUGIN, _SUCCESS = "hparams", 1
_STRING, _NUMBER = 1, 3                 # DataType of the plugin's api.proto
_FIELD = {_NUMBER: 2, _STRING: 3}       # which field of google.protobuf.Value holds it


class Summary:
    """A message that can be written: what TensorBoard's class of the name is to a writer."""

    def __init__(self, data):
        self._data = data

    def SerializeToString(self):
        return self._data


def value(tag, *fields, metadata=None):
    """One value of a summary, with its kind's field: a message."""
    return message((1, message((1, tag), *fields, (9, metadata))))


def _plugin(tag, content):
    """A summary whose meaning is a plugin's: the message is in the metadata."""
    return Summary(value(tag, metadata=message((1, message((1, _PLUGIN), (2, content))))))


def _kind(x):
    if isinstance(x, (int, float)):             # bools, too, as in PyTorch: they are written as numbers
        return _NUMBER, float(x)
    if isinstance(x, str):
        return _STRING, x
    if isinstance(x, tede.Tensor):
        return _NUMBER, float(x.detach().reshape(-1)[0])
    raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")


def hparams(hparam_dict=None, metric_dict=None, hparam_domain_discrete=None):
    """Three summaries for the plugin that compares runs: the experiment, the start of a session and its end."""
    for name, given in (("hparam_dict", hparam_dict), ("metric_dict", metric_dict), ("hparam_domain_discrete", hparam_domain_discrete or {})):
        if not isinstance(given, dict):
            raise TypeError(f"parameter: {name} should be a dictionary, nothing logged.")
    domains = hparam_domain_discrete or {}
    for name, allowed in domains.items():
        if name not in hparam_dict or not isinstance(allowed, list) or \
                not all(isinstance(x, type(hparam_dict[name])) for x in allowed):
            raise TypeError(f"parameter: hparam_domain_discrete[{name}] should be a list of same type as hparam_dict[{name}].")
    session, infos = [], []
    for name, x in hparam_dict.items():
        if x is None:
            continue
        kind, x = _kind(x)
        session.append((1, message((1, name), (2, message((_FIELD[kind], x))))))
        domain = None
        if name in domains:
            domain = message(*((1, message((_FIELD[kind], _kind(choice)[1]))) for choice in domains[name]))
        infos.append((4, message((1, name), (4, kind), (5, domain))))
    metrics = [(5, message((1, message((2, name))))) for name in metric_dict]
    return (_plugin("_hparams_/experiment", message((2, message(*infos, *metrics)))),
            _plugin("_hparams_/session_start_info", message((3, message(*session)))),
            _plugin("_hparams_/session_end_info", message((4, message((1, _SUCCESS))))))
