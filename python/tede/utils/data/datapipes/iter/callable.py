"""Mapper and Collator: a function applied to every item, or to columns of it."""
from tede.utils.data._utils.collate import default_collate
from tede.utils.data.datapipes._decorator import functional_datapipe
from tede.utils.data.datapipes.datapipe import IterDataPipe
from tede.utils.data.datapipes.utils.common import _check_unpickable_fn, validate_input_col

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]


def of_columns(function, item, columns):
    """function of the item, or of its columns."""
    if columns is None:
        return function(item)
    if isinstance(columns, (list, tuple)):
        return function(*(item[column] for column in columns))
    return function(item[columns])


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe):
    """fn(item). With `input_col`, fn gets these columns, and the result takes the place of `output_col`, or of the first of
    them while the others go; -1 appends it.

    Args:
        datapipe: the source
        fn: what is called with each item
        input_col: the column, or the list of columns, that fn gets; None: the item
        output_col: the column that the result goes to

    Example:
        >>> list(IterableWrapper(range(3)).map(lambda x: 2 * x))
        [0, 2, 4]
    """

    def __init__(self, datapipe, fn, input_col=None, output_col=None):
        super().__init__()
        _check_unpickable_fn(fn)
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        self.datapipe, self.fn, self.input_col, self.output_col = datapipe, fn, input_col, output_col
        validate_input_col(fn, input_col)

    def _apply_fn(self, item):
        result = of_columns(self.fn, item, self.input_col)
        if self.input_col is None:
            return result
        was_tuple = isinstance(item, tuple)
        item = list(item) if was_tuple else item
        if self.output_col == -1:
            item.append(result)
        elif self.output_col is not None:
            item[self.output_col] = result
        elif isinstance(self.input_col, (list, tuple)):
            item[self.input_col[0]] = result
            for column in sorted(self.input_col[1:], reverse=True):
                del item[column]
        else:
            item[self.input_col] = result
        return tuple(item) if was_tuple else item

    def __iter__(self):
        for item in self.datapipe:
            yield self._apply_fn(item)

    def __len__(self):
        return self._length_of(self.datapipe)[0]


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Batches of items to batches of tensors.

    Args:
        datapipe: the source
        conversion, collate_fn: what makes one of a list; default_collate

    Example:
        >>> list(IterableWrapper([[1, 2], [3, 4]]).collate(sum))
        [3, 7]
    """

    def __init__(self, datapipe, conversion=default_collate, collate_fn=None):
        function = conversion if collate_fn is None else collate_fn
        if not callable(function):
            raise NotImplementedError("collate: a dict of conversions is for pipes of data frames, of which there are none")
        super().__init__(datapipe, fn=function)
