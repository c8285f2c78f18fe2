"""PassBase and PassResult: the base class of passes, and what a pass returns."""
from abc import ABC, abstractmethod
from collections import namedtuple

__all__ = ["PassBase", "PassResult"]

PassResult = namedtuple("PassResult", ["graph_module", "modified"])


class PassBase(ABC):
    """`call` is the pass; `requires` and `ensures` may check the module before and after it."""

    def __call__(self, graph_module):
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abstractmethod
    def call(self, graph_module):
        """The PassResult of a module; None if the pass doesn't say what it did."""

    def requires(self, graph_module):     # noqa: B027  a pass need not
        """Raises if the pass can't take the module."""

    def ensures(self, graph_module):      # noqa: B027
        """Raises if the pass has left the module as it must not be."""
