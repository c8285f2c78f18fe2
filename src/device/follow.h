/* What a stream is asked for, and how it is followed: see Note [Replays] in replay.c. */
#ifndef TD_DEVICE_FOLLOW_H
#define TD_DEVICE_FOLLOW_H
#include "device/device.h"

/* A call of a device's table that a graph may hold. */
typedef enum td_request_kind {
    TD_ASK_LAUNCH, TD_ASK_FILL, TD_ASK_COPY, TD_ASK_PRODUCT, TD_ASK_FUSED_PRODUCT, TD_ASK_CONVOLUTION, TD_ASK_ATTENTION, TD_ASK_FFT, TD_ASK_FACTOR
} td_request_kind;
typedef struct td_request {
    td_request_kind           kind;
    void                     *target;           /* of a fill or a copy within the device; a kernel */
    const void               *of;               /* what is copied from; a vendor's library's call: its struct */
    int64_t                   count;            /* bytes; groups */
    int                       lanes, n;         /* of a kernel, which has n arguments; n: a fill's byte */
    const td_kernel_argument *arguments;
} td_request;

/* 0 or -1; what the function returns of a vendor's. */
int td_stream_ask(td_stream *stream, const td_request *request);

/* Of a stream: who follows it, and that something is kept back, which may use memory that is free by now. `follower`
 * is read without the lock to see whether there is one. */
typedef struct td_follower td_follower;
typedef struct td_following {
    pthread_mutex_t lock;           /* recursive: what a follower asks for comes here again */
    td_follower    *follower;
    bool            keeps;
} td_following;
td_following *td_stream_following(td_stream *stream);
/* The device's own, for a call that comes after td_stream_settle and is over when nothing else is asked of the
 * stream. */
void        *td_stream_raw(const td_stream *stream);
/* What was kept back is asked for: 0 or -1. */
int          td_stream_settle(td_stream *stream);
/* The same of all streams of an index. */
int          td_device_settle(td_device device);
/* As td_graph_reserve, of a stream that records none. */
int          td_stream_reserve(td_stream *stream, td_generator *g, uint64_t n, uint64_t *seed, uint64_t *offset,
                               void **state);

/* Two words of the device's memory, on the stream and without waiting for it. */
int          td_stream_put_words(td_stream *stream, void *to, const uint64_t *words);

#endif
