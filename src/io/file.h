/* Memory-mapped files as storages. */
#ifndef TD_IO_FILE_H
#define TD_IO_FILE_H
#include <tede/tensor.h>

/* A descriptor of a regular file, and its size; -1.  Messages begin with `who`. */
int td_file_open(const char *who, const char *path, uint64_t *size);
/* Its pages, private to this process: what is written there never reaches the file.  They stay as long as the storage, without the
 * descriptor. */
td_storage *td_file_map(const char *who, const char *path, int descriptor, uint64_t size);
/* Both, for files that are only looked at. */
td_storage *td_file_pages(const char *who, const char *path);
/* `size` bytes from `data` on, as a storage that holds on to the one that they are in. */
td_storage *td_storage_part(td_storage *whole, void *data, size_t size);
/* Drops a storage: for release callbacks. */
void td_storage_drop(void *storage);
/* Add where the fault lies to an error that has a place within the file only. */
void td_file_blame(const char *path);

#endif
