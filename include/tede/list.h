/* tede/list.h: results of operators that give any number of tensors (split, unbind). */
#ifndef TEDE_LIST_H
#define TEDE_LIST_H
#include <tede/tensor.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_tensor_list {
    int64_t     count;
    td_tensor **items;        /* owned, as is each member */
} td_tensor_list;

/* Room for `count` members, all NULL. */
TD_API int  td_tensor_list_new(td_tensor_list *list, int64_t count) TD_MUST_USE;
TD_API void td_tensor_list_release(td_tensor_list *list);

#ifdef __cplusplus
}
#endif
#endif
