"""Graphs of a device's module: tede.cuda.CUDAGraph, graph, graph_pool_handle, make_graphed_callables."""
import gc

from tede import _C


class Graphs:
    """The part of a device's module that records what a stream is asked for, to do it again as one."""

    def _graph_class(self):
        module = self

        class CUDAGraph(_C._Graph):
            """CUDAGraph(keep_graph=False): what a stream was asked for between capture_begin() and capture_end(); replay() does it again, on the same memory."""

            def __new__(cls, keep_graph=False):
                return super().__new__(cls)

            def capture_begin(self, pool=None, capture_error_mode="global"):
                """The current stream records from now on. ``pool``: memory that is shared with other graphs, of their pool() or graph_pool_handle()."""
                self._begin(module._of(None), 0 if pool is None else pool[1], capture_error_mode)

            def capture_end(self):
                self._end()

            def replay(self):
                self._launch()

            def reset(self):
                """Free what it has recorded; its memory is used by others once no graph of the pool is left."""
                self._reset()

            def pool(self):
                return 0, self._pool()

        CUDAGraph.__module__ = self.__name__
        return CUDAGraph

    def _graph_context(self):
        module = self

        class graph:
            """graph(cuda_graph, pool=None, stream=None, capture_error_mode="global"): what is called within it is recorded, on a stream of its own."""
            default_capture_stream = None

            def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global"):
                if stream is None and graph.default_capture_stream is None:
                    graph.default_capture_stream = module.Stream()
                self.cuda_graph, self.pool, self.capture_error_mode = cuda_graph, pool, capture_error_mode
                self.capture_stream = graph.default_capture_stream if stream is None else stream

            def __enter__(self):
                module.synchronize()
                gc.collect()
                module.empty_cache()
                self.capture_stream.__enter__()
                try:
                    self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
                except BaseException:
                    self.capture_stream.__exit__(None, None, None)
                    raise

            def __exit__(self, kind, error, trace):
                try:
                    self.cuda_graph.capture_end()
                except RuntimeError:
                    if error is None:           # else that one says why
                        raise
                finally:
                    self.capture_stream.__exit__(kind, error, trace)
                return False

        graph.__module__ = self.__name__
        return graph

    def graph_pool_handle(self):
        """A pool of memory that several graphs may share."""
        return 0, _C._graph_pool_new()

    def is_current_stream_capturing(self):
        return _C._stream_is_recording(self._of(None))
