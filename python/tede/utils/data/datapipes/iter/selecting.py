"""Filter: the items for which a function is true."""
from tede.utils.data.datapipes._decorator import functional_datapipe
from tede.utils.data.datapipes.datapipe import IterDataPipe
from tede.utils.data.datapipes.iter.callable import of_columns
from tede.utils.data.datapipes.utils.common import StreamWrapper, _check_unpickable_fn, validate_input_col

__all__ = ["FilterIterDataPipe"]


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe):
    """The items for which `filter_fn` is True; the streams in the others are closed.

    Args:
        datapipe: the source
        filter_fn: says of an item, or of its columns, whether it stays
        input_col: the column, or the list of columns, that filter_fn gets; None: the item

    Example:
        >>> list(IterableWrapper(range(4)).filter(lambda x: x > 1))
        [2, 3]
    """

    def __init__(self, datapipe, filter_fn, input_col=None):
        super().__init__()
        _check_unpickable_fn(filter_fn)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col
        validate_input_col(filter_fn, input_col)

    def __iter__(self):
        for item in self.datapipe:
            wanted = of_columns(self.filter_fn, item, self.input_col)
            if not isinstance(wanted, bool):
                raise ValueError("Boolean output is required for `filter_fn` of FilterIterDataPipe, got", type(wanted))
            if wanted:
                yield item
            else:
                StreamWrapper.close_streams(item)
