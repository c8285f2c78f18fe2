/* Check sums: CRC-32, which zip archives have of each entry.
 *
 * sums[k][b] is what a byte b adds that k more bytes follow. A byte's addition waits for the one before, so a block's words have a sum
 * each, which goes on with the same word of the next block: four chains of table lookups run at once. The last block is summed word by
 * word, and takes the four sums up. */
#ifndef TD_IO_CRC_H
#define TD_IO_CRC_H
#include <stddef.h>
#include <stdint.h>

typedef struct crc_table { uint32_t sums[32][256]; } crc_table;

void     crc_start(crc_table *t);
/* The sum of what `sum` is of, 0 of nothing, and n bytes more. */
uint32_t crc_add(const crc_table *t, uint32_t sum, const void *bytes, size_t n);

#endif
