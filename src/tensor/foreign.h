/* What the program that owns a tensor's wrapper says of it. */
#ifndef TD_TENSOR_FOREIGN_H
#define TD_TENSOR_FOREIGN_H
#include <tede/foreign.h>

/* As the function that td_foreign_contiguous was passed; 2 if there is none. */
int td_says_contiguous(const td_tensor *x, int format);

#endif
