/* What the engine's files share. */
#ifndef TEDE_NCCL_NCCL_H
#define TEDE_NCCL_NCCL_H
#include <tede/group.h>

#include "api.h"

/* Opens the library once; 0, or -1 with an error that says what isn't there. */
int nccl_open(void);
/* -1 with an error: what failed, and NCCL's words for why. */
int nccl_failed(const char *what, ncclResult_t status);
/* Makes rank 0's id that of all ranks, within the group's timeout, and sets rank and n_ranks. */
int nccl_agree(td_group_options *options, ncclUniqueId *id);

#endif
