/* The library's constructor. An error that it leaves is load_library's. */
#include "torchaudio.h"

static int aligns(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)op, (void)keys, (void)arguments, (void)context;
    results[0] = (td_value){.kind = TD_VALUE_BOOL, .integer = 1};
    return 0;
}
/* No CUDA in these. */
static int no_version(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)op, (void)keys, (void)arguments, (void)context;
    results[0] = (td_value){.kind = TD_VALUE_NONE};
    return 0;
}

__attribute__((constructor)) static void loaded(void)
{
    if (!td_op_define("_torchaudio::is_align_available() -> bool") || td_register_default("_torchaudio::is_align_available", aligns, NULL) ||
        !td_op_define("_torchaudio::cuda_version() -> int?") || td_register_default("_torchaudio::cuda_version", no_version, NULL) ||
        ta_define_filters() || ta_define_align())
        return;
    (void)ta_define_transducer();
}
