/* How ranks agree on a communicator: rank 0 makes NCCL's id, and the others receive it by a group of the MPI engine, which knows how processes find
 * each other. */
#include <string.h>
#include <tede/auto.h>
#include <tede/tede.h>

#include "nccl.h"

int nccl_agree(td_group_options *options, ncclUniqueId *id)
{
    td_group *group = options->n_ranks == 1 && options->rank == 0 ? NULL : td_group_new("mpi", options);
    TD_AUTO td_tensor *bytes = td_zeros(1, (int64_t[]){sizeof *id}, TD_U8, (td_device){TD_CPU, -1});
    int status = bytes && (group || options->n_ranks == 1) ? 0 : -1;
    if (group)
        options->rank = td_group_rank(group), options->n_ranks = td_group_size(group);
    if (!status && options->rank == 0) {
        const ncclResult_t made = ncclGetUniqueId(id);
        status = made == ncclSuccess ? 0 : nccl_failed("making an id", made);
        memcpy(td_tensor_data(bytes), id, sizeof *id);
    }
    if (!status && group)
        status = td_group_broadcast(group, bytes, 0);
    if (!status)
        memcpy(id, td_tensor_data(bytes), sizeof *id);
    td_group_release(group);
    return status;
}
