/* Let the GPT that examples/gpt.py trained write, without Python.
 *
 *     make generate && ./generate --checkpoint ../../gpt.safetensors --prompt "def read_csv("
 *
 * The same seed gives the same text as `python examples/gpt.py --sample`: the model's operators are the same, the numbers
 * come from the same generator, and a byte is chosen by the same sums in the same order. (If the C library finds another
 * OpenBLAS than the Python package, logits differ in their last bits; TEDE_OPENBLAS names the one to use.) */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tede/auto.h>
#include <tede/tede.h>

enum { VOCABULARY = 256 };
typedef struct model {
    td_safetensors *file;
    int64_t         context, width, layers, heads;
} model;

static void fail(const char *path)
{
    fprintf(stderr, "generate: %s can't be used: %s\n", path, td_error_message());
    exit(1);
}

/* The model ---------------------------------------------------------------------------------------------------- */

/* "blocks.%d.up", 2, "bias" -> the tensor "model.blocks.2.up.bias". The file is mapped: this costs next to nothing. */
static td_tensor *get(const model *m, const char *layer, int block, const char *what)
{
    char name[64], full[80];
    snprintf(name, sizeof name, layer, block);
    snprintf(full, sizeof full, "model.%s.%s", name, what);
    return td_safetensors_get(m->file, full);
}

static td_tensor *linear(const model *m, td_tensor *x, const char *layer, int block)
{
    TD_AUTO td_tensor *weight = get(m, layer, block, "weight");
    TD_AUTO td_tensor *bias = get(m, layer, block, "bias");
    return td_linear(x, weight, bias);
}

static td_tensor *norm(const model *m, td_tensor *x, const char *layer, int block)
{
    TD_AUTO td_tensor *weight = get(m, layer, block, "weight");
    TD_AUTO td_tensor *bias = get(m, layer, block, "bias");
    return td_layer_norm(x, 1, &m->width, weight, bias, 1e-5, true);
}

/* x + out(attention(qkv(norm1(x)))), x of shape (1, length, width). */
static td_tensor *attend(const model *m, td_tensor *x, int64_t length, int block)
{
    TD_AUTO td_tensor *normed = norm(m, x, "blocks.%d.norm1", block);
    TD_AUTO td_tensor *qkv = linear(m, normed, "blocks.%d.qkv", block);
    TD_AUTO td_tensor *parts = td_view(qkv, 5, (int64_t[]){1, length, 3, m->heads, m->width / m->heads});
    TD_AUTO td_tensor *permuted = td_permute(parts, 5, (int64_t[]){2, 0, 3, 1, 4});
    TD_AUTO td_tensor *q = td_select_int(permuted, 0, 0);            /* each (1, heads, length, width / heads) */
    TD_AUTO td_tensor *k = td_select_int(permuted, 0, 1);
    TD_AUTO td_tensor *v = td_select_int(permuted, 0, 2);
    TD_AUTO td_tensor *a = td_scaled_dot_product_attention(q, k, v, TD_NONE, 0.0, true, NULL, false);
    TD_AUTO td_tensor *back = td_transpose(a, 1, 2);
    TD_AUTO td_tensor *joined = td_reshape(back, 3, (int64_t[]){1, length, m->width});
    TD_AUTO td_tensor *out = linear(m, joined, "blocks.%d.out", block);
    return td_add(x, out);
}

/* x + down(gelu(up(norm2(x)))) */
static td_tensor *think(const model *m, td_tensor *x, int block)
{
    TD_AUTO td_tensor *normed = norm(m, x, "blocks.%d.norm2", block);
    TD_AUTO td_tensor *up = linear(m, normed, "blocks.%d.up", block);
    TD_AUTO td_tensor *bent = td_gelu(up, "none");
    TD_AUTO td_tensor *down = linear(m, bent, "blocks.%d.down", block);
    return td_add(x, down);
}

/* The logits (length, 256) of what follows each of `length` bytes. */
static td_tensor *logits_of(const model *m, td_tensor *ids, int64_t length)
{
    TD_AUTO td_tensor *token = get(m, "token", 0, "weight");
    TD_AUTO td_tensor *place = get(m, "place", 0, "weight");
    TD_AUTO td_tensor *head = get(m, "head", 0, "weight");
    TD_AUTO td_tensor *tokens = td_embedding(token, ids, -1, false, false);
    TD_AUTO td_tensor *places = td_slice_tensor(place, 0, NULL, &length, 1);
    td_tensor *x = td_add(tokens, places);
    for (int block = 0; block < m->layers; block++) {
        TD_AUTO td_tensor *before = x;
        TD_AUTO td_tensor *attended = attend(m, before, length, block);
        x = think(m, attended, block);
    }
    TD_AUTO td_tensor *last = x;
    TD_AUTO td_tensor *normed = norm(m, last, "norm", 0);
    TD_AUTO td_tensor *logits = td_linear(normed, head, TD_NONE);
    TD_AUTO td_tensor *rows = td_reshape(logits, 2, (int64_t[]){length, VOCABULARY});
    return td_to(rows, TD_F32);
}

/* Sampling ----------------------------------------------------------------------------------------------------- */

/* Numbers from [0, 1): Vigna's xorshift64*, its state set from the seed by one round of splitmix64. */
static uint64_t first_state(uint64_t seed)
{
    uint64_t z = seed + 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    z ^= z >> 31;
    return z ? z : 1;
}
static double draw(uint64_t *state)
{
    *state ^= *state >> 12, *state ^= *state << 25, *state ^= *state >> 27;
    return (double)((*state * 0x2545F4914F6CDD1D) >> 11) * 0x1p-53;
}

/* The byte that `number` from [0, 1) picks among the top_k largest logits (of equal ones, the lower byte), each weighted
 * by exp((logit - largest) / temperature), adding them up in ascending order. */
static int choose(const float *logits, double number, double temperature, int64_t top_k)
{
    double weights[VOCABULARY], total = 0, reached = 0;
    int ranks[VOCABULARY] = {0}, likeliest = 0, chosen = 0;
    for (int a = 0; a < VOCABULARY; a++)
        for (int b = 0; b < VOCABULARY; b++)
            ranks[a] += logits[b] > logits[a] || (logits[b] == logits[a] && b < a);
    while (ranks[likeliest] != 0)
        likeliest++;
    if (temperature <= 0)
        return likeliest;
    for (int i = 0; i < VOCABULARY; i++)
        if (top_k <= 0 || ranks[i] < top_k)
            total += weights[i] = exp(((double)logits[i] - (double)logits[likeliest]) / temperature);
    for (int i = 0; i < VOCABULARY; i++)
        if (top_k <= 0 || ranks[i] < top_k) {
            chosen = i;
            if ((reached += weights[i]) > number * total)
                break;
        }
    return chosen;
}

static int64_t setting(const model *m, const char *key, const char *path)
{
    const char *text = td_safetensors_metadata(m->file, key);
    int64_t value = text ? strtoll(text, NULL, 10) : 0;
    if (value < 1) {
        td_error(TD_E_VALUE, "its metadata has no '%s'; is it examples/gpt.py's?", key);
        fail(path);
    }
    return value;
}

int main(int count, char **arguments)
{
    const char *path = "gpt.safetensors", *prompt = "def read_csv(";
    uint64_t seed = 1;
    int64_t bytes = 400, top_k = 40;
    double temperature = 0.7;
    static const struct option options[] = {{"checkpoint", 1, NULL, 'c'}, {"prompt", 1, NULL, 'p'}, {"seed", 1, NULL, 's'},
        {"bytes", 1, NULL, 'b'}, {"temperature", 1, NULL, 't'}, {"top-k", 1, NULL, 'k'}, {0}};
    for (int c; (c = getopt_long(count, arguments, "", options, NULL)) != -1;)
        switch (c) {
        case 'c': path = optarg; break;
        case 'p': prompt = optarg; break;
        case 's': seed = (uint64_t)strtoll(optarg, NULL, 10); break;
        case 'b': bytes = strtoll(optarg, NULL, 10); break;
        case 't': temperature = strtod(optarg, NULL); break;
        case 'k': top_k = strtoll(optarg, NULL, 10); break;
        default:
            fprintf(stderr, "usage: %s [--checkpoint FILE] [--prompt TEXT] [--seed N] [--bytes N] [--temperature T] [--top-k N]\n",
                    arguments[0]);
            return 2;
        }

    model m = {.file = td_safetensors_open(path)};
    if (!m.file)
        fail(path);
    m.context = setting(&m, "context", path), m.width = setting(&m, "width", path);
    m.layers = setting(&m, "layers", path), m.heads = setting(&m, "heads", path);

    /* All bytes so far; an empty prompt begins behind a line's end, which isn't shown. */
    int64_t n = (int64_t)strlen(prompt);
    int64_t *ids = calloc((size_t)(n + 1 + (bytes > 0 ? bytes : 0)), sizeof *ids);
    if (!ids)
        return 1;
    fputs(prompt, stdout);
    for (int64_t i = 0; i < n; i++)
        ids[i] = (unsigned char)prompt[i];
    if (n == 0)
        ids[n++] = '\n';
    uint64_t state = first_state(seed);
    for (int64_t i = 0; i < bytes; i++, n++) {
        int64_t length = n < m.context ? n : m.context;
        TD_AUTO td_tensor *seen = td_tensor_from_memory(ids + n - length, 2, (int64_t[]){1, length}, NULL, TD_I64,
                                                        (td_device){TD_CPU, -1}, NULL, NULL);
        TD_AUTO td_tensor *logits = logits_of(&m, seen, length);
        if (!logits)
            fail(path);
        const float *last = (const float *)td_tensor_data(logits) + (length - 1) * VOCABULARY;
        ids[n] = choose(last, draw(&state), temperature, top_k);
        putchar((int)ids[n]);
        fflush(stdout);
    }
    putchar('\n');
    free(ids);
    td_safetensors_release(m.file);
}
