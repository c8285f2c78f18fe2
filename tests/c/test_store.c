/* Stores: each kind does the same; what comes over the wire is not trusted; MPI's processes find one another. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <tede/store.h>
#include "td_test.h"
#include "temporary.h"

/* ---- one store of each kind, and what they all do.  A server's memory belongs to another thread, whose failures a client sees as a closed
 * connection: where allocations fail on purpose, TCP is left out. */

static void drop_store(td_store **store) { td_store_release(*store); }
#define AUTO_STORE __attribute__((cleanup(drop_store)))
static void drop_blob(td_blob *blob) { td_blob_free(blob); }
#define AUTO_BLOB __attribute__((cleanup(drop_blob)))
static void drop_blobs(td_blobs *list) { td_blobs_free(list); }
#define AUTO_BLOBS __attribute__((cleanup(drop_blobs)))

static td_blob text(const char *words) { return (td_blob){(void *)words, strlen(words)}; }
#define CHECK_BLOB(value, expected)                                                                          \
    do {                                                                                                     \
        AUTO_BLOB td_blob blob_ = (value);                                                                   \
        CHECK_STR(blob_.data, expected);                                                                     \
        CHECK_EQ(blob_.size, strlen(expected));                                                              \
    } while (0)

static td_store *master(int64_t timeout)
{
    td_store_tcp_options options = TD_STORE_TCP_OPTIONS;
    options.is_master = true, options.timeout = timeout;
    return td_store_tcp("127.0.0.1", 0, &options);
}
static td_store *client(td_store *of, int64_t timeout)
{
    td_store_tcp_options options = TD_STORE_TCP_OPTIONS;
    options.timeout = timeout;
    return td_store_tcp("127.0.0.1", td_store_tcp_port(of), &options);
}

static const char *file_path;
__attribute__((destructor)) static void remove_store(void)     /* before the folder: the last one defined is the first called */
{
    if (file_path)
        unlink(file_path);
}
static td_store *file_store(void)
{
    file_path = path_of("store");
    unlink(file_path);
    return td_store_file(file_path, 1);
}

static void values_are_kept(td_store *s)
{
    CHECK_EQ(TRY(td_store_set(s, "k", "value", 5)), 0);
    CHECK_BLOB(td_store_get(s, "k"), "value");
    TRY(td_store_set(s, "k", "", 0));
    CHECK_BLOB(td_store_get(s, "k"), "");
    int64_t sum = 0;
    TRY(td_store_add(s, "n", 3, &sum));
    CHECK_EQ(sum, 3);
    TRY(td_store_add(s, "n", -5, &sum));
    CHECK_EQ(sum, -2);
    CHECK_BLOB(td_store_get(s, "n"), "-2");
    const char *const keys[] = {"k", "n", "missing"};
    CHECK_EQ(TRY(td_store_check(s, 2, keys)), 1);
    CHECK_EQ(TRY(td_store_check(s, 3, keys)), 0);
    TRY(td_store_wait(s, 2, keys, 1000));
    CHECK_EQ(TRY(td_store_delete_key(s, "k")), 1);
    CHECK_EQ(TRY(td_store_delete_key(s, "k")), 0);
    CHECK_EQ(TRY(td_store_check(s, 1, keys)), 0);
}
static void exchanges_compare(td_store *s)
{
    CHECK_BLOB(td_store_compare_set(s, "c", text("x"), text("y")), "x");
    CHECK_BLOB(td_store_compare_set(s, "c", text(""), text("y")), "y");
    CHECK_BLOB(td_store_compare_set(s, "c", text("x"), text("z")), "y");
    CHECK_BLOB(td_store_compare_set(s, "c", text("y"), text("z")), "z");
    CHECK_BLOB(td_store_get(s, "c"), "z");
}
static void appends_and_several(td_store *s)
{
    TRY(td_store_append(s, "a", "po", 2));
    TRY(td_store_append(s, "a", "tato", 4));
    CHECK_BLOB(td_store_get(s, "a"), "potato");
    const char *const keys[] = {"x", "y"};
    const td_blob values[] = {text("1"), text("22")};
    TRY(td_store_multi_set(s, 2, keys, values));
    AUTO_BLOBS td_blobs got = {0};
    TRY(td_store_multi_get(s, 2, keys, &got));
    CHECK_EQ(got.count, 2);
    CHECK_STR(got.items[1].data, "22");
    AUTO_BLOBS td_blobs all = {0};
    TRY(td_store_list_keys(s, &all));
    CHECK_EQ(all.count, 3);
}
static void waits_end(td_store *s)
{
    const char *const keys[] = {"never"};
    td_store_set_timeout(s, 20);
    CHECK_EQ(td_store_timeout(s), 20);
    CHECK_FAILS(td_store_wait(s, 1, keys, -1), TD_E_DIST_STORE, "wait timeout after 20ms", "never");
    CHECK_FAILS(td_store_wait(s, 1, keys, 5), TD_E_DIST_STORE, "wait timeout after 5ms");
    CHECK_FAILS(td_store_get(s, "never").data, TD_E_DIST_STORE, "wait timeout after 20ms");
    TRY(td_store_set(s, "never", "1", 1));
    TRY(td_store_wait(s, 1, keys, 1000));
    TRY(td_store_barrier(s, "b", 1, -1));
    CHECK_FAILS(td_store_barrier(s, "b2", 2, 5), TD_E_DIST_STORE, "b2/last_member");
}
static void queues_are_popped_once(td_store *s)
{
    for (int i = 0; i < 200; i++) {
        char word[8];
        TRY(td_store_queue_push(s, "q", word, (size_t)snprintf(word, sizeof word, "%d", i)));
    }
    CHECK_EQ(td_store_queue_len(s, "q"), 200);
    for (int i = 0; i < 200; i++) {
        char word[8];
        snprintf(word, sizeof word, "%d", i);
        CHECK_BLOB(td_store_queue_pop(s, "q", i % 2), word);
    }
    CHECK_FAILS(td_store_queue_pop(s, "q", false).data, TD_E_DIST_QUEUE, "queue is empty");
    td_store_set_timeout(s, 10);
    CHECK_FAILS(td_store_queue_pop(s, "q", true).data, TD_E_DIST_STORE, "timeout");
    CHECK_EQ(td_store_queue_len(s, "q"), 0);
}

static td_store *prefixed(td_store *under)
{
    td_store *s = td_store_prefix("p", under);
    td_store_release(under);
    return s;
}
#define FOR_ALL_KINDS(name, body)                                                                               \
    TD_TEST(name##_in_memory) { AUTO_STORE td_store *s = TRY(td_store_hash()); body(s); }                       \
    TD_TEST(name##_under_a_prefix) { AUTO_STORE td_store *s = TRY(prefixed(td_store_hash())); body(s); }        \
    TD_TEST(name##_over_tcp)                                                                                    \
    {                                                                                                           \
        if (td_test_failing)                                                                                    \
            return;                                                                                             \
        AUTO_STORE td_store *s = TRY(master(10000));                                                            \
        body(s);                                                                                                \
    }
#define FOR_ALL_KINDS_AND_FILES(name, body)                                                                     \
    FOR_ALL_KINDS(name, body)                                                                                   \
    TD_TEST(name##_in_a_file) { AUTO_STORE td_store *s = TRY(file_store()); body(s); }

FOR_ALL_KINDS_AND_FILES(values_are_kept, values_are_kept)
FOR_ALL_KINDS_AND_FILES(exchanges_compare, exchanges_compare)
FOR_ALL_KINDS_AND_FILES(appends_and_several, appends_and_several)
FOR_ALL_KINDS_AND_FILES(waits_end, waits_end)
FOR_ALL_KINDS(queues_are_popped_once, queues_are_popped_once)

TD_TEST(keys_and_values_have_a_limit)
{
    AUTO_STORE td_store *s = TRY(td_store_hash());
    static char key[TD_STORE_MOST_KEY + 2];
    memset(key, 'k', TD_STORE_MOST_KEY + 1);
    CHECK_FAILS(td_store_set(s, key, "", 0), TD_E_VALUE, "key has at most 8192 bytes");
    CHECK_FAILS(td_store_set(s, "k", "", TD_STORE_MOST_VALUE + 1), TD_E_VALUE, "value has at most");
}

TD_TEST(a_value_that_is_no_number_is_not_added_to)
{
    AUTO_STORE td_store *s = TRY(td_store_hash());
    int64_t sum;
    TRY(td_store_set(s, "k", "12x", 3));
    CHECK_FAILS(td_store_add(s, "k", 1, &sum), TD_E_VALUE, "'k'", "no integer");
    TRY(td_store_set(s, "k", "99999999999999999999", 20));
    CHECK_FAILS(td_store_add(s, "k", 1, &sum), TD_E_VALUE, "no integer");
}

/* ---- a store from outside, of which only one function is there */

static int only_compare_set(void *self, const char *key, td_blob expected, td_blob desired, td_blob *now)
{
    (void)key;
    td_blob *is = self;
    if (is->size == expected.size && memcmp(is->data, expected.data, is->size) == 0) {
        td_blob_free(is);
        *is = td_blob_new(desired.data, desired.size);
    }
    *now = td_blob_new(is->data, is->size);
    return now->data ? 0 : -1;
}
TD_TEST(appending_is_made_of_exchanges_where_a_kind_has_none)
{
    static const td_store_kind kind = {.name = "mine", .compare_set = only_compare_set};
    AUTO_BLOB td_blob is = td_blob_new("po", 2);
    CHECK(is.data);
    AUTO_STORE td_store *s = TRY(td_store_new(&kind, &is));
    TRY(td_store_append(s, "any", "tato", 4));
    CHECK_STR(is.data, "potato");
    CHECK(!td_store_has_extended_api(s));
    CHECK_FAILS(td_store_queue_len(s, "q"), TD_E_NOT_IMPLEMENTED, "queue support");
}

/* ---- files */

TD_TEST(the_last_user_of_a_file_removes_it)
{
    struct stat about;
    td_store *first = TRY(file_store()), *second = td_store_file(file_path, 1);
    td_store_release(second);
    bool stays = stat(file_path, &about) == 0;
    td_store_release(first);
    bool removed = unlink(file_path) != 0;
    CHECK(td_test_failing || (stays && removed));        /* a user that can't write how it ends is one for good */
}

TD_TEST(a_file_with_wrong_lengths_is_an_error)
{
    file_path = path_of("store");
    FILE *f = fopen(file_path, "w");
    fwrite("\xff\xff\xff\xff\xff\xff\xff\x7f and more", 1, 17, f);
    fclose(f);
    CHECK_FAILS(td_store_file(file_path, 1), TD_E_DIST_STORE, "damaged");
    unlink(file_path);
}

TD_TEST(what_a_writer_that_died_has_left_is_written_over)
{
    AUTO_STORE td_store *s = TRY(file_store());
    TRY(td_store_set(s, "k", "1", 1));
    FILE *f = fopen(file_path, "a");
    fwrite("\x05\0\0\0\0\0\0\0/h", 1, 10, f);
    fclose(f);
    TRY(td_store_set(s, "j", "2", 1));
    CHECK_BLOB(td_store_get(s, "j"), "2");
    AUTO_STORE td_store *other = TRY(td_store_file(file_path, 2));
    CHECK_BLOB(td_store_get(other, "j"), "2");
}

/* ---- TCP */

static void *set_later(void *s)
{
    usleep(30000);
    return (void *)(intptr_t)td_store_set(s, "late", "1", 1);
}
TD_TEST(a_wait_holds_no_other_thread_up_and_ends_when_the_key_comes)
{
    if (td_test_failing)
        return;
    AUTO_STORE td_store *s = TRY(master(10000));
    pthread_t thread;
    pthread_create(&thread, NULL, set_later, s);
    AUTO_BLOB td_blob value = td_store_get(s, "late");
    pthread_join(thread, NULL);
    CHECK_STR(value.data, "1");
}

TD_TEST(clients_see_one_another)
{
    if (td_test_failing)
        return;
    AUTO_STORE td_store *s = TRY(master(10000)), *a = TRY(client(s, 10000)), *b = td_store_clone(a);
    TRY(td_store_set(a, "k", "1", 1));
    CHECK_BLOB(td_store_get(b, "k"), "1");
    CHECK_BLOB(td_store_get(s, "k"), "1");
}

TD_TEST(nobody_at_the_port_is_an_error_in_time)
{
    if (td_test_failing)
        return;
    AUTO_STORE td_store *s = TRY(master(10000));
    td_store_tcp_options options = TD_STORE_TCP_OPTIONS;
    options.timeout = 60;
    CHECK_FAILS(td_store_tcp("127.0.0.1", 1, &options), TD_E_DIST_NETWORK, "timed out after 60ms", "(127.0.0.1, 1)");
    options.is_master = true;
    CHECK_FAILS(td_store_tcp("127.0.0.1", td_store_tcp_port(s), &options), TD_E_DIST_NETWORK, "failed to listen");
    options.world_size = 2;
    CHECK_FAILS(td_store_tcp("127.0.0.1", 0, &options), TD_E_DIST_STORE, "1/2 clients joined");
    options.world_size = 0;
    CHECK_FAILS(td_store_tcp("127.0.0.1", 0, &options), TD_E_VALUE, "world size cannot be 0");
}

TD_TEST(a_server_that_is_gone_is_an_error)
{
    if (td_test_failing)
        return;
    td_store *s = TRY(master(10000)), *a = client(s, 300);
    td_store_release(s);
    const char *const keys[] = {"k"};
    td_error_clear();
    int status = a ? td_store_wait(a, 1, keys, 200) : 0;
    td_code code = td_error_code();
    td_store_release(a);
    CHECK(status == -1 && code == TD_E_DIST_NETWORK);
}

static int raw(td_store *s)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)td_store_tcp_port(s)), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    return connect(fd, (struct sockaddr *)&to, sizeof to) == 0 ? fd : -1;
}

static uint64_t seed = 1;
static uint32_t draw(void) { return (uint32_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33); }

/* A message that is right in form, or almost: kinds, lengths and counts that may be anything. */
static size_t make_message(unsigned char *to)
{
    size_t n = 0;
    to[n++] = (unsigned char)(draw() % 21);
    for (int part = 0; part < 4; part++) {
        uint64_t length = draw() % 4 ? draw() % 9 : draw() % 2 ? (uint64_t)draw() << 32 : draw() % 100000;
        memcpy(to + n, &length, 8);
        n += 8;
        for (unsigned i = 0; i < length && i < 9; i++)
            to[n++] = (unsigned char)draw();
    }
    return n - draw() % 3;
}

TD_TEST(random_and_cut_messages_harm_nobody)
{
    if (td_test_failing)
        return;
    AUTO_STORE td_store *s = TRY(master(5000));
    static const unsigned char greeting[] = {0, 0xce, 0xf7, 0x85, 0x3c};
    for (int i = 0; i < 300; i++) {
        int fd = raw(s);
        CHECK(fd >= 0);
        unsigned char bytes[4096];
        size_t n = 0;
        if (i % 3)
            memcpy(bytes, greeting, n = sizeof greeting);
        if (i % 2)
            while (n < 3000)
                n += make_message(bytes + n);
        else
            while (n < 200)
                bytes[n++] = (unsigned char)draw();
        n = draw() % 4 ? n : draw() % n;
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        (void)sent;
        if (i % 5 == 0) {
            struct pollfd one = {fd, POLLIN, 0};
            char answer[256];
            if (poll(&one, 1, 1) > 0 && recv(fd, answer, sizeof answer, 0) < 0)
                n = 0;
        }
        close(fd);
    }
    TRY(td_store_set(s, "alive", "1", 1));
    CHECK_BLOB(td_store_get(s, "alive"), "1");
}

TD_TEST(one_who_does_not_read_is_not_answered_without_end)
{
    if (td_test_failing)
        return;
    AUTO_STORE td_store *s = TRY(master(5000));
    int fd = raw(s);
    static const unsigned char greeting[] = {0, 0xce, 0xf7, 0x85, 0x3c};
    char value[60000] = {0}, get[] = "\x03\x02\0\0\0\0\0\0\0/k";
    TRY(td_store_set(s, "k", value, sizeof value));
    ssize_t sent = send(fd, greeting, sizeof greeting, MSG_NOSIGNAL);
    for (int i = 0; i < 20000 && sent >= 0; i++)
        sent = send(fd, get, sizeof get - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    struct td_memory_stats stats;
    TRY(td_store_set(s, "alive", "1", 1));
    td_memory_stats(&stats);
    close(fd);
    CHECK(stats.allocated < 64 << 20);
}

/* An endless server may send anything, too. */
static void *answer_badly(void *context)
{
    int listener = *(int *)context;
    for (int i = 0; i < 12; i++) {
        int fd = accept(listener, NULL, NULL);
        char room[4096], greeting[10];
        if (fd < 0)
            break;
        if (recv(fd, greeting, sizeof greeting, MSG_WAITALL) == sizeof greeting && send(fd, greeting + 6, 4, MSG_NOSIGNAL) == 4 &&
            recv(fd, room, sizeof room, 0) > 0) {
            for (size_t k = 0; k < sizeof room; k++)
                room[k] = (char)draw();
            ssize_t sent = send(fd, room, draw() % sizeof room, MSG_NOSIGNAL);
            (void)sent;
        }
        close(fd);
    }
    return NULL;
}
TD_TEST(a_server_that_answers_anything_harms_no_client)
{
    if (td_test_failing)
        return;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof at;
    CHECK(bind(listener, (struct sockaddr *)&at, size) == 0 && listen(listener, 16) == 0 && getsockname(listener, (struct sockaddr *)&at, &size) == 0);
    pthread_t thread;
    pthread_create(&thread, NULL, answer_badly, &listener);
    td_store_tcp_options options = TD_STORE_TCP_OPTIONS;
    options.timeout = 2000;
    td_store *s = td_store_tcp("127.0.0.1", ntohs(at.sin_port), &options);
    for (int i = 0; s && i < 11; i++) {
        td_blobs keys = {0}, values = {0};
        const char *const names[] = {"a", "b"};
        int64_t sum;
        td_store_set_timeout(s, 50);
        int status = i % 4 == 0 ? td_store_list_keys(s, &keys) : i % 4 == 1 ? td_store_multi_get(s, 2, names, &values) :
                     i % 4 == 2 ? td_store_add(s, "n", 1, &sum) : td_store_wait(s, 2, names, 50);
        (void)status;
        td_blobs_free(&keys), td_blobs_free(&values);
    }
    shutdown(listener, SHUT_RDWR);
    close(listener);
    pthread_join(thread, NULL);
    td_store_release(s);
}

/* ---- interruptions */

static int stop(void *context)
{
    (void)context;
    return td_error(TD_E_RUNTIME, "stopped");
}
TD_TEST(a_wait_can_be_interrupted)
{
    AUTO_STORE td_store *s = TRY(td_store_hash());
    const char *const keys[] = {"never"};
    td_set_interrupt_handler(stop, NULL);
    int status = td_store_wait(s, 1, keys, 0);
    td_set_interrupt_handler(NULL, NULL);
    CHECK(status == -1);
    CHECK_STR(td_error_message(), "stopped");
}

/* ---- PMI */

/* Sends a line, and reads as much as the answer should have; whether it is that. */
static bool says(int fd, const char *line, const char *answer)
{
    char room[512] = {0};
    size_t size = strlen(answer);
    return send(fd, line, strlen(line), MSG_NOSIGNAL) > 0 && recv(fd, room, size, MSG_WAITALL) == (ssize_t)size && strcmp(room, answer) == 0;
}
static int raw_pmi(const td_pmi *server, int rank)
{
    char line[64], answer[128];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)td_pmi_port(server)), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    snprintf(line, sizeof line, "cmd=initack pmiid=%d\n", rank);
    snprintf(answer, sizeof answer, "cmd=initack rc=0\ncmd=set size=2\ncmd=set rank=%d\ncmd=set debug=0\n", rank);
    return connect(fd, (struct sockaddr *)&to, sizeof to) == 0 && says(fd, line, answer) ? fd : -1;
}
TD_TEST(processes_exchange_values_by_pmi)
{
    if (td_test_failing)
        return;
    td_pmi *server = TRY(td_pmi_serve(2));
    int a = raw_pmi(server, 0), b = raw_pmi(server, 1);
    bool right = a >= 0 && b >= 0 && says(a, "cmd=put kvsname=tede key=k value=v=1;2\n", "cmd=put_result rc=0 msg=success\n") &&
                 says(b, "cmd=get_universe_size\n", "cmd=universe_size rc=0 size=2\n") && send(a, "cmd=barrier_in\n", 15, MSG_NOSIGNAL) == 15 &&
                 says(b, "cmd=barrier_in\n", "cmd=barrier_out rc=0\n") && says(b, "cmd=get kvsname=tede key=k\n", "cmd=get_result rc=0 msg=success value=v=1;2\n") &&
                 says(a, "cmd=finalize\n", "cmd=barrier_out rc=0\ncmd=finalize_ack rc=0\n");
    /* Who isn't one of them, or says no line, is sent away. */
    char byte;
    int c = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)td_pmi_port(server)), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    bool away = connect(c, (struct sockaddr *)&to, sizeof to) == 0 && send(c, "cmd=initack pmiid=2\n", 20, MSG_NOSIGNAL) == 20 && recv(c, &byte, 1, 0) <= 0;
    close(a), close(b), close(c);
    td_pmi_release(server);
    CHECK(right);
    CHECK(away);
}

/* Nobody comes to a barrier any more that somebody else has left without a word. */
TD_TEST(a_process_that_goes_ends_the_barriers_of_others)
{
    if (td_test_failing)
        return;
    td_pmi *server = TRY(td_pmi_serve(2));
    char byte;
    int a = raw_pmi(server, 0), b = raw_pmi(server, 1);
    bool began = a >= 0 && b >= 0 && send(a, "cmd=barrier_in\n", 15, MSG_NOSIGNAL) == 15;
    close(b);
    bool ended = recv(a, &byte, 1, 0) == 0;
    int again = raw_pmi(server, 1);             /* comes too late */
    bool refused = send(again, "cmd=barrier_in\n", 15, MSG_NOSIGNAL) == 15 && recv(again, &byte, 1, 0) <= 0;
    close(a), close(again);
    td_pmi_release(server);
    CHECK(began && ended && refused);
}
TD_TEST(a_process_that_is_done_leaves_others_in_peace)
{
    if (td_test_failing)
        return;
    td_pmi *server = TRY(td_pmi_serve(2));
    int a = raw_pmi(server, 0), b = raw_pmi(server, 1);
    bool done = says(b, "cmd=finalize\n", "cmd=finalize_ack rc=0\n");
    close(b);
    int again = raw_pmi(server, 1);
    done = done && send(a, "cmd=barrier_in\n", 15, MSG_NOSIGNAL) == 15 && says(again, "cmd=barrier_in\n", "cmd=barrier_out rc=0\n");
    close(a), close(again);
    td_pmi_release(server);
    CHECK(done);
}
