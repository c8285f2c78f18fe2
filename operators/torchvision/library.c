/* The library's constructor. An error that it leaves is load_library's. */
#include "torchvision.h"

/* No CUDA in these. */
static int no_version(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)op, (void)keys, (void)arguments, (void)context;
    results[0] = (td_value){.kind = TD_VALUE_INT, .integer = -1};
    return 0;
}

__attribute__((constructor)) static void loaded(void)
{
    if (!td_op_define("torchvision::_cuda_version() -> int") || td_register_default("torchvision::_cuda_version", no_version, NULL) ||
        tv_define_boxes() || tv_define_pools())
        return;
    (void)tv_define_deform();
}
