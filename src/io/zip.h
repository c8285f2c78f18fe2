/* What reading and writing of zip archives share: signatures, sizes, and what fields hold whose number is in an extra field. */
#ifndef TD_IO_ZIP_H
#define TD_IO_ZIP_H
#include <stdint.h>
#include <tede/zip.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format's numbers are little-endian");

#define LOCAL_SIGNATURE   0x04034b50u
#define CENTRAL_SIGNATURE 0x02014b50u
#define END_SIGNATURE     0x06054b50u
#define END64_SIGNATURE   0x06064b50u
#define LOCATOR_SIGNATURE 0x07064b50u
#define FULL 0xffffffffu        /* the number is in the extra field ZIP64 */

enum { LOCAL_SIZE = 30, CENTRAL_SIZE = 46, END_SIZE = 22, END64_SIZE = 56, LOCATOR_SIZE = 20, ZIP64 = 1 };
enum { STORED = 0, DEFLATED = 8 };

/* 0 if these, all bytes of entry i, have the check sum that the directory says; else -1. Checkpoints aren't checked: PyTorch can write
 * them without sums, and their pages are looked at where they are. */
int td_zip_check(const td_zip *z, int64_t i, const void *bytes);

#endif
