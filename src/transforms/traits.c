/* Traits that who defines an operator at run time hands over: copied, and put into its row and on its keys.
 *
 * Records stay, for a call on another thread may be reading one that was replaced; like an operator's description they are of
 * the process's own memory. */
#include "calls_transforms_traits.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "transforms/batch.h"

/* A pattern of <tede/transforms.h>, with the words for its modes in the order of their bits. */
typedef struct pattern { const char *name; td_batch_rule *rule; const char *modes[4]; } pattern;
static const pattern patterns[] = {
    {"pointwise", td_rule_pointwise, {"own_dtypes"}},
    {"leading", td_rule_leading, {"expand", "own_ranks", "checked"}},
    {"dims", td_rule_dims, {"absent_is_all", "keeps_0d", "of_result", "all_operands"}},
    {"fold", td_rule_fold, {NULL}},
    {"loop", td_rule_loop, {NULL}},
};

typedef struct record {
    td_op_traits   traits;
    td_batching    batching;
    struct record *next;
    char           text[];              /* of all members */
} record;
static record *records;

static bool is_word(const char *text, size_t length, const char *word)
{
    return word && strlen(word) == length && !memcmp(text, word, length);
}

/* "dims(absent_is_all, keeps_0d)" */
static int read_batch(const char *text, td_batching *batching)
{
    size_t length = strcspn(text, "(");
    const pattern *p = NULL;
    for (size_t i = 0; i < TD_COUNT(patterns) && !p; i++)
        p = is_word(text, length, patterns[i].name) ? &patterns[i] : NULL;
    if (!p)
        return td_error(TD_E_VALUE, "batch: '%s' is no pattern; there are pointwise, leading, dims, fold and loop", text);
    *batching = (td_batching){p->rule, 0, NULL};
    for (const char *at = text + length; *at && *at != ')';) {
        at += 1 + strspn(at + 1, " ");
        size_t n = strcspn(at, ",)");
        uint32_t mode = 0;
        for (size_t i = 0; i < TD_COUNT(p->modes); i++)
            mode |= is_word(at, n, p->modes[i]) ? 1u << i : 0;
        if (!mode || !at[n])
            return td_error(TD_E_VALUE, "batch: '%s': '%.*s' is no mode of %s", text, (int)n, at, p->name);
        batching->modes |= mode;
        at += n;
    }
    return 0;
}

/* A pattern calls the operator on operands with one more dimension: it must take and give tensors. */
static int check_batch(const td_op *op, const td_batching *batching)
{
    const td_op_info *info = &op->info;
    if (batching->rule == td_rule_loop)
        return 0;
    for (int i = 0; i < info->n_arguments; i++)
        if (info->arguments[i].kind == TD_VALUE_TENSORS)
            return td_error(TD_E_VALUE, "batch: %s takes a list of tensors, which no pattern does", info->name);
    for (int r = 0; r < info->n_results; r++)
        if (info->results[r].kind != TD_VALUE_TENSOR)
            return td_error(TD_E_VALUE, "batch: a result of %s is no tensor", info->name);
    if (batching->rule == td_rule_dims && (!info->n_arguments || info->arguments[0].kind != TD_VALUE_TENSOR))
        return td_error(TD_E_VALUE, "batch: dims is for operators whose first argument is a tensor, not %s", info->name);
    return 0;
}

/* "other=src", whose first word is an argument. */
static int check_pair(const td_op *op, const char *trait, const char *text)
{
    const size_t length = text ? strcspn(text, "=") : 0;
    bool known = !text;
    for (int i = 0; i < op->info.n_arguments && !known; i++)
        known = is_word(text, length, op->info.arguments[i].name) && text[length] && text[length + 1];
    return known ? 0 : td_error(TD_E_VALUE, "%s: '%s' is not an argument of %s, = and a name", trait, text, op->info.name);
}

/* Copies *text to *at, and moves that on. */
static void keep_text(const char **text, char **at)
{
    if (!*text)
        return;
    size_t size = strlen(*text) + 1;
    *text = memcpy(*at, *text, size);
    *at += size;
}

int td_op_set_traits(const td_op *op, const td_op_traits *given)
{
    td_op *row = (td_op *)op;
    td_op_traits traits = {.size = sizeof traits};
    td_batching batching = {NULL, 0, NULL};
    if (!op || !given || given->size < offsetof(td_op_traits, batch) + sizeof given->batch)
        return td_error(TD_E_VALUE, "td_op_set_traits: an operator and its traits with their size, please");
    if (op->unbox)
        return td_error(TD_E_VALUE, "td_op_set_traits: %s is no operator of td_op_define's", op->info.name);
    memcpy(&traits, given, given->size < sizeof traits ? given->size : sizeof traits);
    traits.size = sizeof traits;
    const td_autocast_policy policies[] = {traits.autocast, traits.autocast_devices};
    for (size_t i = 0; i < TD_COUNT(policies); i++)
        if (policies[i] < TD_AUTOCAST_AS_IT_IS || policies[i] > TD_AUTOCAST_UNSAFE)
            return td_error(TD_E_VALUE, "autocast: there is no policy %d", (int)policies[i]);
    if (traits.flags & ~(uint32_t)TD_OP_TRAITS)
        return td_error(TD_E_VALUE, "td_op_set_traits: flags but promotes, linear and knows_bits follow from the schema of %s", op->info.name);
    if (traits.batch && (read_batch(traits.batch, &batching) || check_batch(op, &batching)))
        return -1;
    if (check_pair(op, "shown", traits.shown) || check_pair(op, "spelled", traits.spelled))
        return -1;
    if (!traits.batch)
        traits.batch = __atomic_load_n(&row->info.traits, __ATOMIC_ACQUIRE)->batch;
    const char *texts[] = {traits.batch, traits.tags, traits.names, traits.flops, traits.shown, traits.spelled, traits.decompose,
                           traits.undo};
    size_t size = 0;
    for (size_t i = 0; i < TD_COUNT(texts); i++)
        size += texts[i] ? strlen(texts[i]) + 1 : 0;
    record *r = malloc(sizeof *r + size);
    if (!r)
        return td_error(TD_E_MEMORY, "no memory for an operator's traits");
    r->traits = traits, r->batching = batching;
    char *at = r->text;
    keep_text(&r->traits.batch, &at);
    keep_text(&r->traits.tags, &at);
    keep_text(&r->traits.names, &at);
    keep_text(&r->traits.flops, &at);
    keep_text(&r->traits.shown, &at);
    keep_text(&r->traits.spelled, &at);
    keep_text(&r->traits.decompose, &at);
    keep_text(&r->traits.undo, &at);
    r->next = __atomic_load_n(&records, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&records, &r->next, r, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    __atomic_store_n(&row->info.traits, &r->traits, __ATOMIC_RELEASE);
    __atomic_store_n(&row->info.flags, (row->info.flags & ~(uint32_t)TD_OP_TRAITS) | traits.flags, __ATOMIC_RELAXED);
    if (batching.rule)
        __atomic_store_n(&row->batching, &r->batching, __ATOMIC_RELEASE);
    return (traits.autocast || traits.autocast_devices) && !td_op_has_kernel(op, TD_KEY_AUTOCAST, TD_CPU) ? td_autocast_register(op) : 0;
}
