// Threads and make's jobserver (GNU make manual, "POSIX Jobserver Interaction"): a pipe or FIFO with one byte
// for every additional thread that may run.
#include "compiler/base/jobs.h"
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MOST = 256, LOOK_AGAIN_MS = 5, NAME_MOST = 4096 };
enum { NO_SERVER = -1, UNUSABLE = -2 };

// ---------------------------------------------------------------- the jobserver
typedef struct jobserver {
    int in, out; // reopened descriptors; in is nonblocking. Both NO_SERVER, or both UNUSABLE by this process
} jobserver;

// The last one counts: make appends its own to the given flags.
static const char *server_name(const char *makeflags) {
    static const char *const options[] = {"--jobserver-auth=", "--jobserver-fds="};
    const char *found = NULL;
    for (int k = 0; makeflags && k < 2; k++)
        for (const char *s = makeflags; (s = strstr(s, options[k])); s++)
            if (s + strlen(options[k]) > found) found = s + strlen(options[k]);
    return found;
}

// Reopened, since O_NONBLOCK is a property of the open file, which other processes share.
static jobserver open_paths(const char *in, const char *out) {
    jobserver s = {open(in, O_RDONLY | O_NONBLOCK | O_CLOEXEC), open(out, O_WRONLY | O_CLOEXEC)};
    if (s.in >= 0 && s.out >= 0) return s;
    if (s.in >= 0) close(s.in);
    if (s.out >= 0) close(s.out);
    return (jobserver){UNUSABLE, UNUSABLE};
}

// The jobserver that this value of MAKEFLAGS names.
static jobserver jobserver_open(const char *makeflags) {
    const char *name = server_name(makeflags);
    char path[NAME_MOST], other[NAME_MOST];
    int in, out;
    if (!name) return (jobserver){NO_SERVER, NO_SERVER};
    size_t n = strcspn(name, " ");
    if (strncmp(name, "fifo:", 5) == 0 && n < sizeof path) {
        snprintf(path, sizeof path, "%.*s", (int)n - 5, name + 5);
        return open_paths(path, path);
    }
    if (sscanf(name, "%d,%d", &in, &out) != 2 || in < 0 || out < 0) return (jobserver){UNUSABLE, UNUSABLE};
    snprintf(path, sizeof path, "/proc/self/fd/%d", in);
    snprintf(other, sizeof other, "/proc/self/fd/%d", out);
    return open_paths(path, other);
}

static void jobserver_close(jobserver s) {
    if (s.in < 0) return;
    close(s.in);
    close(s.out);
}

// ---------------------------------------------------------------- work
typedef struct pool {
    pthread_mutex_t lock;
    int next, n;
    jobserver server;
    void (*work)(void *user, int index);
    void *user;
    locale_t locale;
} pool;

static int take_work(pool *p) {
    pthread_mutex_lock(&p->lock);
    int index = p->next < p->n ? p->next++ : -1;
    pthread_mutex_unlock(&p->lock);
    return index;
}

static bool work_left(pool *p) {
    pthread_mutex_lock(&p->lock);
    bool left = p->next < p->n;
    pthread_mutex_unlock(&p->lock);
    return left;
}

static void do_work(pool *p) {
    for (int index; (index = take_work(p)) >= 0;) p->work(p->user, index);
}

// False: no work was left before make had a token.
static bool wait_for_token(pool *p, char *token) {
    while (work_left(p)) {
        struct pollfd in = {.fd = p->server.in, .events = POLLIN};
        if (poll(&in, 1, LOOK_AGAIN_MS) < 0 && errno != EINTR) return false;
        if (read(p->server.in, token, 1) == 1) return true;
    }
    return false;
}

static void give_back(pool *p, char token) {
    while (write(p->server.out, &token, 1) < 0 && errno == EINTR) {
    }
}

static void *helper(void *user) {
    pool *p = user;
    char token = 0;
    uselocale(p->locale);
    if (p->server.in < 0) {
        do_work(p);
    } else if (wait_for_token(p, &token)) {
        do_work(p);
        give_back(p, token);
    }
    return NULL;
}

void jobs_run(int n, int threads, void (*work)(void *user, int index), void *user) {
    pool p = {.n = n,
              .work = work,
              .user = user,
              .server = {NO_SERVER, NO_SERVER},
              .locale = uselocale((locale_t)0)};
    pthread_t helpers[THREADS_MOST];
    int started = 0;
    if (threads > n) threads = n;
    if (threads > 1) p.server = jobserver_open(getenv("MAKEFLAGS"));
    if (p.server.in == UNUSABLE) threads = 1;
    pthread_mutex_init(&p.lock, NULL);
    while (started + 1 < threads && started < THREADS_MOST &&
           pthread_create(&helpers[started], NULL, helper, &p) == 0)
        started++;
    do_work(&p);
    for (int i = 0; i < started; i++) pthread_join(helpers[i], NULL);
    pthread_mutex_destroy(&p.lock);
    jobserver_close(p.server);
}
