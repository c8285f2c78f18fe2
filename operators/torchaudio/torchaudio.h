/* What the files of this folder share: the operators that torchaudio's compiled parts have, under their names. */
#ifndef TEDE_TORCHAUDIO_H
#define TEDE_TORCHAUDIO_H
#include "../operators.h"

/* Each defines the operators of its file: 0, or -1 with an error. */
int ta_define_filters(void);
int ta_define_align(void);
int ta_define_transducer(void);

/* Entry i of a contiguous int32 or int64 tensor. */
static inline int64_t ta_entry(const td_tensor *x, int64_t i)
{
    return td_tensor_dtype(x) == TD_I32 ? ((const int32_t *)td_tensor_data(x))[i] : ((const int64_t *)td_tensor_data(x))[i];
}
static inline int64_t ta_greatest(const td_tensor *x)
{
    int64_t most = INT64_MIN;
    for (int64_t i = 0; i < td_tensor_numel(x); i++)
        most = ta_entry(x, i) > most ? ta_entry(x, i) : most;
    return most;
}

#endif
