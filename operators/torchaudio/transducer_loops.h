/* The loops of transducer.c over logits, included once for T = float and once for T = double. */

/* Sequences [begin, end): costs, and gradients of the logits. */
static void NAME(sequences)(void *context, int64_t begin, int64_t end)
{
    const transducer *r = context;
    const int64_t cells = r->times * r->outputs;
    for (int64_t n = begin; n < end; n++) {
        const lattice l = lattice_of(r, n);
        for (int64_t t = 0; t < l.times; t++) {
            for (int64_t u = 0; u < l.outputs; u++) {
                const int64_t at = t * r->outputs + u;
                const T *x = (const T *)r->logits + (n * cells + at) * r->classes;
                double norm = 0;
                if (r->softmax) {
                    double most = -INFINITY, sum = 0;
                    for (int64_t c = 0; c < r->classes; c++)
                        most = (double)x[c] > most ? (double)x[c] : most;
                    for (int64_t c = 0; c < r->classes && most > -INFINITY; c++)
                        sum += exp((double)x[c] - most);
                    norm = sum > 0 ? most + log(sum) : most;
                }
                l.norm[at] = norm;
                l.skip[at] = (double)x[r->blank] - norm;
                l.emit[at] = u < l.outputs - 1 ? (double)x[l.targets[u]] - norm : -INFINITY;
            }
        }
        const double likelihood = forward_backward(r, &l);
        ((T *)r->costs)[n] = (T)-likelihood;
        for (int64_t t = 0; t < l.times; t++) {
            for (int64_t u = 0; u < l.outputs; u++) {
                const int64_t at = t * r->outputs + u;
                const T *x = (const T *)r->logits + (n * cells + at) * r->classes;
                T *g = (T *)r->grads + (n * cells + at) * r->classes;
                const double here = l.alpha[at] - likelihood - l.norm[at];
                for (int64_t c = 0; c < r->classes; c++) {
                    const double to = here + (double)x[c];
                    double slope = r->softmax ? exp(to + l.beta[at]) : 0;
                    if (c == r->blank && t == l.times - 1 && u == l.outputs - 1)
                        slope -= exp(to);
                    if (c == r->blank && t < l.times - 1)
                        slope -= exp(to + l.beta[at + r->outputs]);
                    if (u < l.outputs - 1 && c == l.targets[u])
                        slope -= exp(to + l.beta[at + 1]);
                    if (r->clamp > 0)
                        slope = slope > r->clamp ? r->clamp : slope < -r->clamp ? -r->clamp : slope;
                    g[c] = (T)slope;
                }
            }
        }
    }
}

#undef T
#undef NAME
