"""Lists and dicts that refuse changes: a node's arguments, which change only by assignment to the node."""
from tede.utils._pytree import (_dict_flatten, _dict_unflatten, _list_flatten, _list_unflatten, _mapping_with_keys, _sequence_with_keys,
                                register_pytree_node)

__all__ = ["immutable_list", "immutable_dict"]


def _no_mutation(self, *args, **kwargs):
    raise TypeError(f"{type(self).__name__!r} object does not support mutation. If you are attempting to modify the kwargs or args of a "
                    "torch.fx.Node object,\ninstead create a new copy of it and assign the copy to the node:\n\n"
                    "    new_args = ...  # copy and mutate args\n    node.args = new_args")


class immutable_list(list):
    """A list without the methods that change it."""
    __delitem__ = __iadd__ = __imul__ = __setitem__ = append = clear = extend = insert = pop = remove = reverse = sort = _no_mutation

    def __hash__(self):
        return hash(tuple(self))

    def __reduce__(self):
        return type(self), (tuple(self),)


class immutable_dict(dict):
    """A dict without the methods that change it."""
    __delitem__ = __ior__ = __setitem__ = clear = pop = popitem = setdefault = update = _no_mutation

    def __hash__(self):
        return hash(frozenset(self.items()))

    def __reduce__(self):
        return type(self), (tuple(self.items()),)


def _list(values, context):
    return immutable_list(_list_unflatten(values, context))


def _dict(values, context):
    return immutable_dict(_dict_unflatten(values, context))


register_pytree_node(immutable_list, _list_flatten, _list, serialized_type_name="torch.fx.immutable_collections.immutable_list",
                     flatten_with_keys_fn=_sequence_with_keys(_list_flatten))
register_pytree_node(immutable_dict, _dict_flatten, _dict, serialized_type_name="torch.fx.immutable_collections.immutable_dict",
                     flatten_with_keys_fn=_mapping_with_keys(_dict_flatten))
