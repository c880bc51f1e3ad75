// Forked workers over pipes. A job is sent as its number; the answer is {job, result, length} and the text.
#include "compiler/cli/test_pool.h"
#include "compiler/base/clock.h"
#include "compiler/base/fs.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS_MOST = 64, TEXT_MOST = 4096 };

typedef struct worker {
    pid_t pid; // 0: none
    int to, from;
    int job; // -1: idle
    double since;
} worker;

typedef struct pool {
    arena *arena;
    const pool_work *work;
    worker workers[WORKERS_MOST];
    int next; // job to hand out
    int left; // jobs without an answer
} pool;

typedef struct header {
    int job, result, length;
} header;

// ---------------------------------------------------------------- the worker
static _Noreturn void work(const pool_work *w, int in, int out) {
    for (int job; read_all(in, &job, sizeof job);) {
        arena *a = arena_new();
        const char *text = "";
        header h = {.job = job, .result = w->run(w->user, a, job, &text)};
        size_t n = strlen(text);
        h.length = (int)(n < TEXT_MOST ? n : TEXT_MOST);
        if (!write_all(out, &h, sizeof h) || !write_all(out, text, (size_t)h.length)) break;
        arena_destroy(a);
    }
    _exit(0);
}

static void close_others(const pool *p) {
    for (int i = 0; i < p->work->nworkers; i++)
        if (p->workers[i].pid) close(p->workers[i].to), close(p->workers[i].from);
}

static bool start(pool *p, worker *k) {
    int down[2], up[2];
    if (pipe(down)) return false;
    if (pipe(up)) return close(down[0]), close(down[1]), false;
    fflush(stdout);
    fflush(stderr);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0); // a process group, to kill it with its children
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        close(down[1]), close(up[0]);
        close_others(p);
        signal(SIGINT, SIG_DFL);
        work(p->work, down[0], up[1]);
    }
    close(down[0]), close(up[1]);
    if (pid < 0) return close(down[1]), close(up[0]), false;
    *k = (worker){.pid = pid, .to = down[1], .from = up[0], .job = -1};
    return true;
}

// ---------------------------------------------------------------- the caller
static void give_job(pool *p, worker *k) {
    if (p->next == p->work->njobs) return;
    k->job = p->next++;
    k->since = clock_now();
    write_all(k->to, &k->job, sizeof k->job); // a dead worker is noticed when its answer is read
}

static void answer(pool *p, const pool_answer *r) {
    p->left--;
    p->work->done(p->work->user, r);
}

static void send_signal(const worker *k, int sig) {
    if (kill(-k->pid, sig)) kill(k->pid, sig);
}

// Time to remove temporary files; false: the worker has not ended.
static bool ended_by_request(const worker *k, int *status) {
    enum { TRIES = 50 };
    static const struct timespec pause = {.tv_nsec = 10000000};
    send_signal(k, SIGTERM);
    for (int i = 0; i < TRIES; i++, nanosleep(&pause, NULL))
        if (waitpid(k->pid, status, WNOHANG) == k->pid) return true;
    return false;
}

static int stop(worker *k, bool by_force) {
    int status = 0;
    bool ended = by_force && ended_by_request(k, &status); // with open pipes: SIGPIPE would leave its files
    close(k->to);
    close(k->from);
    if (by_force) send_signal(k, SIGKILL); // its children, too
    while (!ended && waitpid(k->pid, &status, 0) < 0 && errno == EINTR) {
    }
    k->pid = 0;
    return status;
}

static void discard_worker(pool *p, worker *k, bool late) {
    pool_answer r = {.job = k->job, .crashed = true};
    int status = stop(k, late);
    if (late) r.text = arena_printf(p->arena, "took more than %d s", p->work->timeout);
    else if (WIFSIGNALED(status))
        r.text = arena_printf(p->arena, "crashed with signal %d (%s)", WTERMSIG(status),
                              strsignal(WTERMSIG(status)));
    else r.text = arena_printf(p->arena, "ended with exit code %d", WEXITSTATUS(status));
    if (r.job >= 0) answer(p, &r);
    if (p->next < p->work->njobs) start(p, k);
    if (k->pid) give_job(p, k);
}

static void take_answer(pool *p, worker *k) {
    header h;
    char text[TEXT_MOST + 1];
    if (!read_all(k->from, &h, sizeof h) || h.job != k->job || h.length < 0 || h.length > TEXT_MOST ||
        !read_all(k->from, text, (size_t)h.length)) {
        discard_worker(p, k, false);
        return;
    }
    text[h.length] = 0;
    k->job = -1;
    answer(p, &(pool_answer){.job = h.job, .result = h.result, .text = arena_strdup(p->arena, text)});
    if (p->work->needs_new_worker && p->work->needs_new_worker(p->work->user, h.result)) {
        stop(k, false);
        if (p->next < p->work->njobs) start(p, k);
    }
    if (k->pid) give_job(p, k);
}

static void wait_for_answers(pool *p) {
    struct pollfd fds[WORKERS_MOST];
    worker *of[WORKERS_MOST];
    int n = 0;
    double nearest = 1e9, t = clock_now();
    for (int i = 0; i < p->work->nworkers; i++) {
        worker *k = &p->workers[i];
        if (!k->pid || k->job < 0) continue;
        double rest = k->since + p->work->timeout - t;
        if (rest < nearest) nearest = rest;
        fds[n] = (struct pollfd){.fd = k->from, .events = POLLIN};
        of[n++] = k;
    }
    int ready = poll(fds, (nfds_t)n, nearest > 0 ? (int)(nearest * 1000) + 1 : 0);
    t = clock_now();
    for (int i = 0; i < n; i++) {
        if (ready > 0 && fds[i].revents) take_answer(p, of[i]);
        else if (t - of[i]->since > p->work->timeout) discard_worker(p, of[i], true);
    }
}

static bool any_worker(const pool *p) {
    for (int i = 0; i < p->work->nworkers; i++)
        if (p->workers[i].pid) return true;
    return false;
}

bool pool_run(arena *a, const pool_work *w) {
    pool *p = ARENA_NEW(a, pool);
    pool_work copy = *w;
    if (copy.nworkers > WORKERS_MOST) copy.nworkers = WORKERS_MOST;
    if (copy.nworkers > w->njobs) copy.nworkers = w->njobs;
    *p = (pool){.arena = a, .work = &copy, .left = w->njobs};
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < copy.nworkers; i++)
        if (start(p, &p->workers[i])) give_job(p, &p->workers[i]);
    while (p->left && any_worker(p)) wait_for_answers(p);
    for (int i = 0; i < copy.nworkers; i++)
        if (p->workers[i].pid) stop(&p->workers[i], false);
    signal(SIGPIPE, before);
    return p->left == 0;
}
