/* td_tensor_list: arrays of owned tensors, as operators with Tensor[] results return them. */
#include <tede/list.h>
#include "tensor/checked.h"

/* All NULL, which release accepts: an error half way through filling needs no count of its own. An empty list has a
 * block, too, so NULL items mean that there is no list. */
int td_tensor_list_new(td_tensor_list *list, int64_t count)
{
    list->count = 0;
    list->items = td_mem_alloc_zero(td_array_bytes(count ? count : 1, sizeof *list->items));
    if (!list->items)
        return -1;
    list->count = count;
    return 0;
}

void td_tensor_list_release(td_tensor_list *list)
{
    if (!list->items)
        return;
    for (int64_t i = 0; i < list->count; i++)
        td_tensor_release(list->items[i]);
    td_mem_free(list->items, sizeof *list->items * (size_t)(list->count ? list->count : 1));
    *list = (td_tensor_list){0};
}
