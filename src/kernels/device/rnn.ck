/* The elementwise part of a recurrent step, with the order of gates and what is saved of src/kernels/cpu/nn/rnn_isa.c: a work item for each
 * unit of each row.
 *
 * A: float32 or float64.  MODE: td_rnn_mode. */
#include "kernels/device/group.ck"

typedef struct cell_values { int64_t rows, n, bias; } cell_values;

#ifndef TD_HOST
#define LSTM (MODE == 2)
#define GRU  (MODE == 3)
#define GATES (LSTM ? 4 : GRU ? 3 : 1)
#define ROW(x, width) (AT(A, x) + e / v.n * (width) * v.n + e % v.n)

KERNEL cell_forward(BUFFER(h), BUFFER(gx), BUFFER(gh), BUFFER(bias), BUFFER(hp), BUFFER(cp), BUFFER(c), BUFFER(saved), VALUES(cell_values, v))
{
    UNPACK(cell_values, v)
    for (int64_t e = ITEM; e < v.rows * v.n; e += ITEMS) {
        GLOBAL const A *x = ROW(gx, GATES), *g = ROW(gh, GATES), *b = AT(const A, bias) + e % v.n;
#define HIDDEN(k) (g[(k) * v.n] + (v.bias ? b[(k) * v.n] : 0))
#define SUM(k)    (x[(k) * v.n] + HIDDEN(k))
#if LSTM
        const A in = A_sigmoid(SUM(0)), forget = A_sigmoid(SUM(1)), cell = A_tanh(SUM(2)), to = A_sigmoid(SUM(3));
        const A now = forget * AT(const A, cp)[e] + in * cell;
        GLOBAL A *s = ROW(saved, 4);
        s[0] = in, s[v.n] = forget, s[2 * v.n] = cell, s[3 * v.n] = to;
        AT(A, c)[e] = now;
        AT(A, h)[e] = to * A_tanh(now);
#elif GRU
        const A reset = A_sigmoid(SUM(0)), update = A_sigmoid(SUM(1)), hidden = HIDDEN(2), fresh = A_tanh(x[2 * v.n] + reset * hidden);
        GLOBAL A *s = ROW(saved, 4);
        s[0] = reset, s[v.n] = update, s[2 * v.n] = fresh, s[3 * v.n] = hidden;
        AT(A, h)[e] = (AT(const A, hp)[e] - fresh) * update + fresh;
#elif MODE == 1
        AT(A, h)[e] = A_tanh(SUM(0));
#else
        const A sum = SUM(0);
        AT(A, h)[e] = sum <= 0 ? 0 : sum;
#endif
    }
}

/* dh and dc: in, from the step behind; out, towards the one before, dh without the product of dg and the weights.  dx and dg are one buffer unless
 * MODE is a GRU. */
KERNEL cell_backward(BUFFER(dh), BUFFER(dc), BUFFER(dx), BUFFER(dg), BUFFER(grad), BUFFER(grad_c), BUFFER(h), BUFFER(hp), BUFFER(c), BUFFER(cp),
                     BUFFER(saved), VALUES(cell_values, v))
{
    UNPACK(cell_values, v)
    for (int64_t e = ITEM; e < v.rows * v.n; e += ITEMS) {
        const A a = AT(const A, grad)[e] + AT(const A, dh)[e];
        GLOBAL A *x = ROW(dx, GATES);
#if LSTM
        GLOBAL const A *s = ROW(saved, 4);
        const A in = s[0], forget = s[v.n], cell = s[2 * v.n], to = s[3 * v.n], t = A_tanh(AT(const A, c)[e]);
        const A b = AT(const A, grad_c)[e] + AT(const A, dc)[e] + a * to * (1 - t * t);
        x[0] = b * cell * in * (1 - in);
        x[v.n] = b * AT(const A, cp)[e] * forget * (1 - forget);
        x[2 * v.n] = b * in * (1 - cell * cell);
        x[3 * v.n] = a * t * to * (1 - to);
        AT(A, dc)[e] = b * forget;
        AT(A, dh)[e] = 0;
#elif GRU
        GLOBAL const A *s = ROW(saved, 4);
        GLOBAL A *g = ROW(dg, GATES);
        const A reset = s[0], update = s[v.n], fresh = s[2 * v.n], hidden = s[3 * v.n];
        const A d_fresh = a * (1 - update) * (1 - fresh * fresh), d_reset = d_fresh * hidden * reset * (1 - reset);
        const A d_update = a * (AT(const A, hp)[e] - fresh) * update * (1 - update);
        x[0] = g[0] = d_reset;
        x[v.n] = g[v.n] = d_update;
        x[2 * v.n] = d_fresh, g[2 * v.n] = d_fresh * reset;
        AT(A, dh)[e] = a * update;
#else
        const A now = AT(const A, h)[e];
        x[0] = MODE == 1 ? a * (1 - now * now) : now > 0 ? a : 0;
        AT(A, dh)[e] = 0;
#endif
    }
}
#endif
