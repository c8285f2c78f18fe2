/* Products of tiles of bytes and of bfloat16 (AMX_INT8, AMX_BF16), which the operating system lets a process use that asks for it: asked once, here. */
#ifndef TD_BASE_TILES_H
#define TD_BASE_TILES_H
#include <stdbool.h>

bool td_cpu_multiplies_tiles(void);

#endif
