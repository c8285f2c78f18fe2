/* tede/library.h: the library as such: its version, and shared libraries that extend it.
 *
 * A process has one libtede: whatever is linked with it, installed or from a wheel, finds by its SONAME the one that is
 * loaded. The SONAME's number changes when programs must be compiled again. */
#ifndef TEDE_LIBRARY_H
#define TEDE_LIBRARY_H
#include <tede/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TD_VERSION "0.1.0"              /* of these headers */
/* Of the library in use, which a later installation may have replaced. */
TD_API const char *td_version(void);

/* Load a shared library whose constructors register operators, layouts or dtypes; it stays loaded. 0, or -1 with an error:
 * that of the loader, one that a constructor has left, or that the library is linked with another libtede than this one,
 * where everything it registered went. For devices there is td_device_load() in tede/device.h. */
TD_API int td_library_load(const char *path) TD_MUST_USE;

/* 0, or -1 with an error that names both files: another libtede was in the process before this one. It takes no registrations then. */
TD_API int td_library_check(void) TD_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
