/* tede/store.h: keys and values that processes share, to find one another.
 *
 * A store is a table of functions over somebody's data: TCP (a server in one process, clients anywhere), a file, memory of
 * one process, or another store under a prefix.  Whoever fills in a td_store_kind has a store, too.  What a kind leaves out
 * is made from what it has.
 *
 * Keys are text, values are bytes.  Waits end after a timeout, with TD_E_DIST_STORE, and when td_interrupted() says so.
 * Any number of threads may use a store; one that waits holds none of the others up. */
#ifndef TEDE_STORE_H
#define TEDE_STORE_H
#include <tede/wait.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_store td_store;

/* Bytes that the caller owns. */
typedef struct td_blob { void *data; size_t size; } td_blob;
/* Of `size` bytes from `data` on, or with room for them if it is NULL; data is NULL in the result on error.  An empty blob has
 * data, too. */
TD_API td_blob td_blob_new(const void *data, size_t size);
TD_API void    td_blob_free(td_blob *blob);             /* and empties it; one without data is fine */

/* A list of blobs, which grows; keys are in it with a NUL behind them, which isn't counted. */
typedef struct td_blobs { td_blob *items; int64_t count, room; } td_blobs;
TD_API int  td_blobs_add(td_blobs *list, td_blob blob) TD_MUST_USE;     /* takes the blob over, on error, too */
TD_API void td_blobs_free(td_blobs *list);

enum { TD_STORE_MOST_KEY = 8 << 10, TD_STORE_MOST_VALUE = 64 << 20, TD_STORE_MOST_KEYS = 128 << 10 };
#define TD_STORE_TIMEOUT_MS 300000      /* of a new store */

/* What a store is made of.  Results are 0 or -1 with an error, or as said.  Times are in milliseconds; 0 has no end.
 *
 * Members from `append` on may be NULL or give TD_STORE_OTHERWISE: then the others are used in their place (for queues and
 * list_keys, which have no other way, the call fails). */
enum { TD_STORE_OTHERWISE = -2 };
typedef struct td_store_kind {
    const char *name;
    int     (*set)(void *self, const char *key, const void *value, size_t size);
    int     (*get)(void *self, const char *key, int64_t timeout, td_blob *value);            /* waits for it */
    int     (*add)(void *self, const char *key, int64_t amount, int64_t *sum);
    int     (*wait)(void *self, int64_t n, const char *const *keys, int64_t timeout);
    int     (*check)(void *self, int64_t n, const char *const *keys);                        /* 1: all are there; 0 */
    int     (*compare_set)(void *self, const char *key, td_blob expected, td_blob desired, td_blob *now);
    int     (*delete_key)(void *self, const char *key);                                      /* 1: it was there; 0 */
    int64_t (*num_keys)(void *self);
    void    (*release)(void *self);
    int       (*append)(void *self, const char *key, const void *value, size_t size);
    int       (*multi_get)(void *self, int64_t n, const char *const *keys, int64_t timeout, td_blobs *values);
    int       (*multi_set)(void *self, int64_t n, const char *const *keys, const td_blob *values);
    int       (*queue_push)(void *self, const char *key, const void *value, size_t size);
    int       (*queue_pop)(void *self, const char *key, bool block, int64_t timeout, td_blob *value);
    int64_t   (*queue_len)(void *self, const char *key);
    int       (*list_keys)(void *self, td_blobs *keys);
    bool      (*has_extended_api)(void *self);          /* NULL: whether there are append, multi_get and multi_set */
    td_store *(*clone)(void *self);                     /* NULL: the store itself */
    /* Of a store that leans on another one, whose timeout it shares. */
    int64_t   (*timeout)(void *self);
    void      (*set_timeout)(void *self, int64_t timeout);
} td_store_kind;

/* ---- stores.  The caller owns the result; NULL on error. */

/* One of your own; `kind` must stay, `self` is released with it (not if this fails). */
TD_API td_store *td_store_new(const td_store_kind *kind, void *self);
/* In this process's memory. */
TD_API td_store *td_store_hash(void);
/* In a file that processes of a host, or of a shared file system with locks, open.  The last of its users removes it when as many as
 * world_size have come and gone; with a negative one, of a number that isn't known, it stays. */
TD_API td_store *td_store_file(const char *path, int64_t world_size);
/* A view of `under` where each key begins with "prefix/". */
TD_API td_store *td_store_prefix(const char *prefix, td_store *under);

typedef struct td_store_tcp_options {
    int64_t world_size;         /* users of the store; -1: not known */
    bool    is_master;          /* it is served from here, by a thread of this process */
    int64_t timeout;            /* in ms, also of being connected; 0 has no end */
    bool    wait_for_workers;   /* the master waits until world_size stores are connected */
    bool    multi_tenant;       /* masters of this process with the same port share a server */
    int     listen_fd;          /* a socket that is bound to the port already, which is taken over; -1: none */
} td_store_tcp_options;
#define TD_STORE_TCP_OPTIONS {-1, false, TD_STORE_TIMEOUT_MS, true, false, -1}
/* The store that a process serves at host:port.  The bytes on the wire are those of PyTorch's TCPStore, so either side may be its.
 * Port 0 in the master lets the system choose one. */
TD_API td_store   *td_store_tcp(const char *host, int port, const td_store_tcp_options *options);
/* Of a TCP store; of others 0, NULL, and false. */
TD_API int         td_store_tcp_port(const td_store *store);
TD_API const char *td_store_tcp_host(const td_store *store);                          /* borrowed */
/* "TCPStore(client=..., server=...)" into `buffer`, of which it returns the length. */
TD_API size_t      td_store_tcp_describe(td_store *store, char *buffer, size_t size);

/* Both accept NULL. */
TD_API td_store *td_store_retain(td_store *store);
TD_API void      td_store_release(td_store *store);
/* Another one over the same data, with connections of its own. */
TD_API td_store *td_store_clone(td_store *store);

/* ---- what is in them.  NULL for a store fails and leaves the thread's error as it was. */

TD_API int64_t td_store_timeout(const td_store *store);
TD_API void    td_store_set_timeout(td_store *store, int64_t timeout);
TD_API int     td_store_set(td_store *store, const char *key, const void *value, size_t size) TD_MUST_USE;
TD_API td_blob td_store_get(td_store *store, const char *key);
/* Of a number written in decimal digits; a key that isn't there is 0. */
TD_API int     td_store_add(td_store *store, const char *key, int64_t amount, int64_t *sum) TD_MUST_USE;
/* timeout: -1 is the store's own. */
TD_API int     td_store_wait(td_store *store, int64_t n, const char *const *keys, int64_t timeout) TD_MUST_USE;
TD_API int     td_store_check(td_store *store, int64_t n, const char *const *keys) TD_MUST_USE;      /* 1, 0 or -1 */
/* Sets `desired` if the value is `expected`, or if there is none and `expected` is empty.  The value that is there then; `expected` if
 * there is none. */
TD_API td_blob td_store_compare_set(td_store *store, const char *key, td_blob expected, td_blob desired);
TD_API int     td_store_delete_key(td_store *store, const char *key) TD_MUST_USE;                     /* 1, 0 or -1 */
TD_API int64_t td_store_num_keys(td_store *store);
TD_API int     td_store_append(td_store *store, const char *key, const void *value, size_t size) TD_MUST_USE;
TD_API int     td_store_multi_get(td_store *store, int64_t n, const char *const *keys, td_blobs *values) TD_MUST_USE;
TD_API int     td_store_multi_set(td_store *store, int64_t n, const char *const *keys, const td_blob *values) TD_MUST_USE;
/* Queues: a value that is pushed is popped once.  A pop that doesn't block fails with TD_E_DIST_QUEUE if there is none. */
TD_API int     td_store_queue_push(td_store *store, const char *key, const void *value, size_t size) TD_MUST_USE;
TD_API td_blob td_store_queue_pop(td_store *store, const char *key, bool block);
TD_API int64_t td_store_queue_len(td_store *store, const char *key);
TD_API int     td_store_list_keys(td_store *store, td_blobs *keys) TD_MUST_USE;
TD_API bool    td_store_has_extended_api(td_store *store);
/* Returns when world_size callers have come here with the same key; the key is used up by it.  timeout: -1 is the store's own. */
TD_API int     td_store_barrier(td_store *store, const char *key, int64_t world_size, int64_t timeout) TD_MUST_USE;

/* ---- starting MPI without its launcher
 *
 * A server of the PMI-1 protocol for `size` processes, which MPI_Init connects to if PMI_PORT ("host:port"), PMI_RANK, PMI_ID
 * (the same number) and PMI_SIZE are in its environment.  It serves until it is released. */
typedef struct td_pmi td_pmi;
TD_API td_pmi *td_pmi_serve(int size);
TD_API int     td_pmi_port(const td_pmi *server);
TD_API void    td_pmi_release(td_pmi *server);          /* accepts NULL */

#ifdef __cplusplus
}
#endif
#endif
