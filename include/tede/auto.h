/* tede/auto.h: references that drop themselves at the closing brace (GCC and Clang).
 *
 *     TD_AUTO td_tensor *sum = td_add(a, b);
 */
#ifndef TEDE_AUTO_H
#define TEDE_AUTO_H
#include <tede/list.h>
#include <tede/tensor.h>

static inline void td_auto_release(td_tensor **x) { td_tensor_release(*x); }
static inline void td_auto_release_list(td_tensor_list *list) { td_tensor_list_release(list); }
#define TD_AUTO      __attribute__((cleanup(td_auto_release)))
#define TD_AUTO_LIST __attribute__((cleanup(td_auto_release_list)))

#endif
