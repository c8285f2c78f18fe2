/* Generators: words, seeds and saved states.  The expected words are PyTorch 2.13's for the same seeds. */
#include "td_test.h"

#include <tede/random.h>

static void drop(td_generator **g) { td_generator_release(*g); }
#define AUTO_GENERATOR __attribute__((cleanup(drop))) td_generator

static uint64_t hash_of(const void *bytes, size_t n)
{
    uint64_t hash = UINT64_C(14695981039346656037);      /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
    return hash;
}

TD_TEST(a_seed_gives_the_words_that_pytorch_gives)
{
    AUTO_GENERATOR *g = TRY(td_generator_new());
    td_generator_seed(g, 0);
    CHECK(td_generator_next64(g) == UINT64_C(0x8c7f0aac97c4aa2f));
    CHECK(td_generator_next64(g) == UINT64_C(0xb716a675d821ccc0));
    CHECK(td_generator_next32(g) == 0x9a4eb343);
    CHECK(td_generator_next32(g) == 0xdba252fb);
}

TD_TEST(a_thousand_words_later_the_state_is_still_pytorchs)
{
    unsigned char state[TD_GENERATOR_STATE_SIZE];
    AUTO_GENERATOR *g = TRY(td_generator_new());
    td_generator_seed(g, 42);
    for (int i = 0; i < 999; i++)
        td_generator_next64(g);
    CHECK(td_generator_next64(g) == UINT64_C(0x722d6f368573f5f0));
    td_generator_get_state(g, state);
    CHECK(hash_of(state, sizeof state) == UINT64_C(0xfe61af2947b8e48c));
}

TD_TEST(a_new_generator_has_the_documented_seed_and_remembers_all_64_bits_of_another)
{
    AUTO_GENERATOR *g = TRY(td_generator_new());
    CHECK(td_generator_initial_seed(g) == TD_DEFAULT_SEED);
    td_generator_seed(g, UINT64_C(0xfedcba9876543210));
    CHECK(td_generator_initial_seed(g) == UINT64_C(0xfedcba9876543210));
    uint64_t word = td_generator_next64(g);
    td_generator_seed(g, 0x76543210);
    CHECK(td_generator_next64(g) == word);
}

TD_TEST(a_saved_state_continues_where_it_was_taken)
{
    unsigned char state[TD_GENERATOR_STATE_SIZE + 1];
    AUTO_GENERATOR *g = TRY(td_generator_new());
    for (int drawn = 0; drawn < 1300; drawn += 13) {
        td_generator_seed(g, 7);
        for (int i = 0; i < drawn; i++)
            td_generator_next32(g);
        td_generator_get_state(g, state + 1);      /* any alignment will do */
        uint32_t first = td_generator_next32(g), second = td_generator_next32(g);
        td_generator_seed(g, 8);
        TRY(td_generator_set_state(g, state + 1, TD_GENERATOR_STATE_SIZE));
        CHECK(td_generator_next32(g) == first);
        CHECK(td_generator_next32(g) == second);
    }
}

TD_TEST(a_clone_goes_its_own_way)
{
    AUTO_GENERATOR *g = TRY(td_generator_new());
    td_generator_next32(g);
    AUTO_GENERATOR *copy = TRY(td_generator_clone(g));
    uint32_t word = td_generator_next32(g);
    td_generator_seed(g, 1);
    CHECK(td_generator_next32(copy) == word);
    CHECK(td_generator_initial_seed(copy) == TD_DEFAULT_SEED);
}

TD_TEST(states_that_cannot_be_are_refused_and_change_nothing)
{
    unsigned char state[TD_GENERATOR_STATE_SIZE], before[TD_GENERATOR_STATE_SIZE], after[TD_GENERATOR_STATE_SIZE];
    const struct { int32_t left, seeded; uint64_t next; } wrong[] = {
        {0, 1, 0}, {-5, 1, 0}, {625, 1, 0}, {1, 0, 0}, {1, 1, 625}, {624, 1, 600}, {2, 1, UINT64_MAX}};
    AUTO_GENERATOR *g = TRY(td_generator_new());
    td_generator_next32(g);
    td_generator_get_state(g, before);
    CHECK_FAILS(td_generator_set_state(g, before, 10), TD_E_RUNTIME, "5056", "10");
    for (int i = 0; i < (int)(sizeof wrong / sizeof *wrong); i++) {
        memcpy(state, before, sizeof state);
        memcpy(state + 8, &wrong[i], sizeof wrong[i]);
        CHECK_FAILS(td_generator_set_state(g, state, sizeof state), TD_E_RUNTIME, "Invalid mt19937 state");
    }
    td_generator_get_state(g, after);
    CHECK(memcmp(before, after, sizeof before) == 0);
}

TD_TEST(the_default_generator_is_one_and_the_same)
{
    td_generator *g = td_default_generator();
    CHECK(g == td_default_generator());
    CHECK(td_generator_retain(g) == g);
    td_generator_release(g);
    td_generator_release(g);
    td_manual_seed(0);
    CHECK(td_generator_next64(g) == UINT64_C(0x8c7f0aac97c4aa2f));
    CHECK(td_generator_next64(NULL) == UINT64_C(0xb716a675d821ccc0));
    uint64_t seed = td_generator_seed_random(g);
    CHECK(td_generator_initial_seed(g) == seed);
    CHECK(td_generator_seed_random(g) != seed);
}
