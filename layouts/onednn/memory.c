/* Memories, and running primitives over them. */
#include "mkldnn.h"

void mk_memory_drop(mk_memory *m)
{
    if (m->memory)
        dnnl_memory_destroy(m->memory);
    if (m->desc)
        dnnl_memory_desc_destroy(m->desc);
    td_tensor_release(m->bytes);
    *m = (mk_memory){0};
}

int mk_status(const char *op, int status)
{
    switch (status) {
    case DNNL_SUCCESS: return 0;
    case DNNL_OUT_OF_MEMORY: return td_error(TD_E_MEMORY, "%s: oneDNN has no memory left", op);
    case DNNL_INVALID_ARGUMENTS: return td_error(TD_E_RUNTIME, "%s: oneDNN refuses these sizes or dtypes", op);
    case DNNL_UNIMPLEMENTED: return td_error(TD_E_RUNTIME, "%s: oneDNN has no primitive for these sizes and dtypes on this CPU", op);
    default: return td_error(TD_E_RUNTIME, "%s: oneDNN failed, with status %d", op, status);
    }
}

int mk_dtype(const char *op, td_dtype dtype)
{
    switch (dtype) {
    case TD_F32: return DNNL_F32;
    case TD_BF16: return DNNL_BF16;
    case TD_F16: return DNNL_F16;
    case TD_I8: return DNNL_S8;
    case TD_U8: return DNNL_U8;
    default: return td_error(TD_E_RUNTIME, "%s expects float, bfloat16, half, uint8, int8 tensor input, not %s", op, td_dtype_name(dtype));
    }
}

/* ---- descriptions */

static int dims_of(int64_t ndim)
{
    return ndim >= 1 && ndim <= DNNL_MAX_NDIMS ? 0
           : td_error(TD_E_RUNTIME, "to_mkldnn: a tensor of the mkldnn layout has 1 to %d dimensions, not %lld", DNNL_MAX_NDIMS, (long long)ndim);
}

int mk_plain(dnnl_memory_desc_t *desc, int64_t ndim, const int64_t *sizes, td_dtype dtype)
{
    const int type = mk_dtype("to_mkldnn", dtype);
    int64_t strides[DNNL_MAX_NDIMS], step = 1;
    if (type < 0 || dims_of(ndim))
        return -1;
    for (int d = (int)ndim - 1; d >= 0; d--) {
        strides[d] = step;
        step *= sizes[d] ? sizes[d] : 1;
    }
    return mk_status("to_mkldnn", dnnl_memory_desc_create_with_strides(desc, (int)ndim, sizes, type, strides));
}

int mk_any(dnnl_memory_desc_t *desc, int64_t ndim, const int64_t *sizes, td_dtype dtype)
{
    const int type = mk_dtype("to_mkldnn", dtype);
    if (type < 0 || dims_of(ndim))
        return -1;
    return mk_status("to_mkldnn", dnnl_memory_desc_create_with_tag(desc, (int)ndim, sizes, type, DNNL_FORMAT_ANY));
}

/* ---- memories */

/* The memory over m's description and bytes. */
static int finish(mk_memory *m)
{
    return mk_status("to_mkldnn", dnnl_memory_create(&m->memory, m->desc, dnnl_engine, td_tensor_data(m->bytes)));
}

int mk_kept(mk_memory *m, td_tensor *x)
{
    if (mk_is(x)) {
        const mk_memory *own = td_tensor_fields(x);
        m->bytes = td_tensor_retain(own->bytes), m->groups = own->groups;
        return mk_status("to_mkldnn", dnnl_memory_desc_clone(&m->desc, own->desc)) || finish(m) ? -1 : 0;
    }
    if (dnnl_open())
        return -1;
    if (td_tensor_layout(x) != TD_STRIDED || td_tensor_device(x).type != TD_CPU)
        return td_error(TD_E_RUNTIME, "to_mkldnn: an operand beside those of the mkldnn layout must be strided, on the CPU");
    if (mk_plain(&m->desc, td_tensor_ndim(x), td_tensor_sizes(x), td_tensor_dtype(x)))
        return -1;
    m->bytes = td_make_contiguous(x);
    return m->bytes ? finish(m) : -1;
}

int mk_of(mk_memory *m, td_tensor *x)
{
    const mk_memory *own = mk_is(x) ? td_tensor_fields(x) : NULL;
    return own && own->groups ? mk_of_sizes(m, x, td_tensor_ndim(x), td_tensor_sizes(x)) : mk_kept(m, x);
}

int mk_grouped(const td_tensor *x, int64_t groups, int64_t *sizes)
{
    int at = 0;
    if (groups)
        sizes[at++] = groups;
    for (int d = 0; d < td_tensor_ndim(x); d++)
        sizes[at++] = d || !groups ? td_tensor_sizes(x)[d] : td_tensor_sizes(x)[d] / groups;
    return at;
}

int mk_of_sizes(mk_memory *m, td_tensor *x, int64_t ndim, const int64_t *sizes)
{
    MK_AUTO mk_memory whole = {0}, flat = {0};
    MK_AUTO_MD dnnl_memory_desc_t own = NULL;
    const td_dtype dtype = td_tensor_dtype(x);
    int64_t dims[DNNL_MAX_NDIMS + 1];
    if (mk_kept(&whole, x))
        return -1;
    const int at = mk_grouped(x, whole.groups, dims);
    if (mk_plain(&own, at, dims, dtype) || mk_as(&flat, &whole, own))
        return -1;
    if (mk_plain(&m->desc, ndim, sizes, dtype))
        return -1;
    m->bytes = td_tensor_retain(flat.bytes);
    return finish(m);
}

int mk_make(mk_memory *m, md desc)
{
    const int64_t size = (int64_t)dnnl_memory_desc_get_size(desc);
    if (mk_status("to_mkldnn", dnnl_memory_desc_clone(&m->desc, desc)))
        return -1;
    m->bytes = td_tensor_new(1, &size, TD_U8, TD_DEVICE_NONE);
    return m->bytes ? finish(m) : -1;
}

int mk_write(const mk_memory *to, const mk_memory *from)
{
    MK_AUTO_PD dnnl_primitive_desc_t pd = NULL;
    if (dnnl_memory_desc_get_size(to->desc) == 0)
        return 0;
    if (mk_status("to_mkldnn", dnnl_reorder_primitive_desc_create(&pd, from->desc, dnnl_engine, to->desc, dnnl_engine, NULL)))
        return -1;
    return mk_run("to_mkldnn", pd, 2, (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, from->memory}, {DNNL_ARG_DST, to->memory}});
}

int mk_as(mk_memory *m, mk_memory *from, md want)
{
    if (dnnl_memory_desc_equal(from->desc, want)) {
        *m = *from;
        *from = (mk_memory){0};
        return 0;
    }
    return mk_make(m, want) || mk_write(m, from) ? -1 : 0;
}

td_tensor *mk_strided(mk_memory *m, int64_t ndim, const int64_t *sizes, td_dtype dtype)
{
    MK_AUTO mk_memory plain = {0};
    TD_AUTO td_tensor *x = td_tensor_new(ndim, sizes, dtype, TD_DEVICE_NONE);
    if (!x || mk_of(&plain, x) || mk_write(&plain, m))
        return NULL;
    return td_tensor_retain(x);
}

int mk_run(const char *op, dnnl_primitive_desc_t pd, int n, const dnnl_exec_arg_t *arguments)
{
    dnnl_exec_arg_t given[16];
    int count = 0;
    for (int i = 0; i < n; i++)
        if (arguments[i].memory)
            given[count++] = arguments[i];
    dnnl_primitive_t primitive = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_set_threads(td_in_parallel() ? 1 : td_num_threads());
    int status = dnnl_primitive_create(&primitive, pd);
    if (status == DNNL_SUCCESS)
        status = dnnl_stream_create(&stream, dnnl_engine, DNNL_IN_ORDER);
    if (status == DNNL_SUCCESS)
        status = dnnl_primitive_execute(primitive, stream, count, given);
    if (status == DNNL_SUCCESS)
        status = dnnl_stream_wait(stream);
    if (stream)
        dnnl_stream_destroy(stream);
    if (primitive)
        dnnl_primitive_destroy(primitive);
    return mk_status(op, status);
}

/* ---- for kernels */

int mk_give(td_value *result, td_tensor *x)
{
    *result = (td_value){.kind = x ? TD_VALUE_TENSOR : TD_VALUE_NONE, .tensor = x};
    return x ? 0 : -1;
}

int mk_spread(const td_op *op, const td_value *v, int n, const int64_t *otherwise, int64_t *out)
{
    const int count = v->kind == TD_VALUE_INTS ? v->count : v->kind == TD_VALUE_INT ? 1 : 0;
    const int64_t *given = v->kind == TD_VALUE_INTS ? v->ints : &v->integer;
    if (count != 0 && count != 1 && count != n)
        return td_error(TD_E_RUNTIME, "%s: %d numbers for %d dimensions", mk_name(op), count, n);
    if (!count && !otherwise)
        return td_error(TD_E_RUNTIME, "%s: no numbers for %d dimensions", mk_name(op), n);
    for (int i = 0; i < n; i++)
        out[i] = count == 0 ? otherwise[i] : given[count == 1 ? 0 : i];
    return 0;
}

int mk_sizes_of(const char *name, int n, const td_value *arguments, int *ndim, int64_t *sizes)
{
    enum { MOST = 16 };
    const td_op *op = td_op_find(name);
    td_value changed[MOST], results[4] = {{0}};
    td_tensor *made[MOST] = {0};
    int status = 0;
    for (int i = 0; i < n && status == 0; i++) {
        changed[i] = arguments[i];
        td_tensor *x = mk_optional(&arguments[i]);
        if (!x)
            continue;
        made[i] = td_tensor_new(td_tensor_ndim(x), td_tensor_sizes(x), TD_F32, (td_device){TD_META, -1});
        changed[i].tensor = made[i];
        status = made[i] ? 0 : -1;
    }
    if (status == 0)
        status = op ? td_op_call(op, changed, results) : td_error(TD_E_RUNTIME, "there is no operator %s", name);
    if (status == 0) {
        *ndim = td_tensor_ndim(results[0].tensor);
        for (int d = 0; d < *ndim; d++)
            sizes[d] = td_tensor_sizes(results[0].tensor)[d];
        td_values_release(results, td_op_describe(op)->n_results);
    }
    for (int i = 0; i < n; i++)
        td_tensor_release(made[i]);
    return status;
}
