/* CUDA graphs: what the driver captures of a stream is made executable at once, and the graph itself dropped.
 *
 * While a stream captures, the driver refuses calls that it takes for unsafe, of other threads too: allocations and loading code among them, which here
 * harm nothing, since a captured graph refers to what they made by its address.  Around them the thread says so. */
#include "cuda.h"

static int n_recording;         /* streams: while there are none, the driver isn't asked */

int cuda_unrecorded_begin(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (!__atomic_load_n(&n_recording, __ATOMIC_ACQUIRE) || cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
        return -1;
    return mode;
}
void cuda_unrecorded_end(int before)
{
    CUstreamCaptureMode mode = before;
    if (before >= 0)
        cuThreadExchangeStreamCaptureMode(&mode);
}

int cuda_graph_begin(td_device device, void *stream, td_graph_mode mode)
{
    if (!cuda_has_graphs)
        return td_error(TD_E_RUNTIME, "cuda: graphs need a driver of CUDA 11.4 or later");
    if (CUDA_CALL(device.index, "beginning a graph", cuStreamBeginCapture_v2(stream, (CUstreamCaptureMode)mode)))
        return -1;
    __atomic_add_fetch(&n_recording, 1, __ATOMIC_RELEASE);
    return 0;
}

void *cuda_graph_end(td_device device, void *stream)
{
    CUgraph graph = NULL;
    CUgraphExec made = NULL;
    __atomic_sub_fetch(&n_recording, 1, __ATOMIC_RELEASE);
    if (cuda_enter(device.index))
        return NULL;
    CUresult status = cuStreamEndCapture(stream, &graph);
    status = status == CUDA_SUCCESS ? cuGraphInstantiateWithFlags(&made, graph, 0) : status;
    if (graph)
        cuGraphDestroy(graph);
    if (status != CUDA_SUCCESS)
        cuda_failed("recording a graph", status);
    return made;
}

int cuda_graph_launch(td_device device, void *stream, void *graph)
{
    return CUDA_CALL(device.index, "a graph's launch", cuGraphLaunch(graph, stream));
}

void cuda_graph_free(td_device device, void *graph)
{
    CUDA_FREE(device.index, cuGraphExecDestroy(graph));
}
