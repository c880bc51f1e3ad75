// The thread pool of the process, created on first use. A job has a slot for each of its workers, which takes it if it wakes up in
// time. The caller works, too, then withdraws the free slots and waits for the workers that have theirs, so
// a worker that wakes up late does not delay the job.
#include "runtime-lite/core/runtime.h"
#include "runtime-lite/system/system.h"
#include <stdatomic.h>

enum { WORKERS_MOST = 255, SPINS = 2000, SLOT_BITS = 32 };

// The tasks of a thread that nobody has taken yet.
typedef struct range {
    _Alignas(64) atomic_llong next;
    long long end;
} range;

typedef struct job {
    onnxc_rt_task *task;
    void *const *context;
    int threads;
    range of[WORKERS_MOST + 1]; // by thread
} job;

typedef struct pool {
    system_lock owner; // held by the call that owns the job
    system_lock sleep; // for the conditions only
    system_condition wake, done;
    atomic_int numbered; // workers that have a number
    // Bits of the free slots, by the worker's number, from 1 on.
    _Alignas(64) atomic_uint slots[(WORKERS_MOST + SLOT_BITS) / SLOT_BITS];
    _Alignas(64) atomic_int finished; // slots whose worker has finished
    atomic_int sleepers, waiting;
    job job;
    int workers;
    int fork_handler;
} pool;

#define FRESH {.owner = SYSTEM_LOCK, .sleep = SYSTEM_LOCK, .wake = SYSTEM_CONDITION, .done = SYSTEM_CONDITION}
static pool the_pool = FRESH;
static _Thread_local const onnxc_threads *settings;

const onnxc_threads *onnxc_use_threads(const onnxc_threads *t) {
    const onnxc_threads *before = settings;
    settings = t;
    return before;
}

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// ---------------------------------------------------------------- working
// Each thread has a range of the tasks, the same one in kernels of equal numbers of tasks: the rows that it has written
// are in its cache. It takes most of what remains there, and then shares of what remains of other ranges, so that all
// finish at nearly the same time, whatever their speed (guided self-scheduling; C. Polychronopoulos, D. Kuck, 1987).
static void work_on(const job *j, range *r, int quarters, int thread) {
    long long begin = atomic_load(&r->next), end;
    for (;;) {
        do {
            if (begin >= r->end) return;
            end = begin + (quarters * (r->end - begin) + 3) / 4;
        } while (!atomic_compare_exchange_weak(&r->next, &begin, end));
        j->task(j->context, begin, end, thread);
        begin = atomic_load(&r->next);
    }
}

static void work(job *j, int thread) {
    enum { OWN = 3, OTHERS = 2 };
    work_on(j, &j->of[thread], OWN, thread);
    for (int i = 1; i < j->threads; i++) work_on(j, &j->of[(thread + i) % j->threads], OTHERS, thread);
}

static void share_out(job *j, int64_t tasks) {
    for (int i = 0; i < j->threads; i++) {
        atomic_store(&j->of[i].next, tasks * i / j->threads);
        j->of[i].end = tasks * (i + 1) / j->threads;
    }
}

// The worker takes its slot; false: it has none.
static int take_slot(pool *p, int number) {
    atomic_uint *word = &p->slots[number / SLOT_BITS];
    unsigned bit = 1U << number % SLOT_BITS;
    return (atomic_load(word) & bit) && (atomic_fetch_and(word, ~bit) & bit);
}

static void wait_for_slot(pool *p, int number) {
    for (int i = 0; i < SPINS; i++) {
        if (take_slot(p, number)) return;
        relax();
    }
    system_lock_take(&p->sleep);
    atomic_fetch_add(&p->sleepers, 1);
    while (!take_slot(p, number)) system_wait(&p->wake, &p->sleep);
    atomic_fetch_sub(&p->sleepers, 1);
    system_lock_release(&p->sleep);
}

static void worker(void *arg) {
    pool *p = arg;
    int number = 1 + atomic_fetch_add(&p->numbered, 1);
    for (;;) {
        wait_for_slot(p, number);
        work(&p->job, number);
        atomic_fetch_add(&p->finished, 1);
        if (!atomic_load(&p->waiting)) continue;
        system_lock_take(&p->sleep);
        system_wake(&p->done);
        system_lock_release(&p->sleep);
    }
}

// ---------------------------------------------------------------- the pool
// A forked child has no worker threads.
static void after_fork(void) { the_pool = (pool)FRESH; }

static void start_workers(pool *p, int wanted) {
    static atomic_int registered;
    if (!atomic_exchange(&registered, 1)) system_after_fork(after_fork);
    if (wanted > WORKERS_MOST) wanted = WORKERS_MOST;
    for (int missing = wanted - p->workers; missing > 0; missing--) p->workers += system_thread(worker, p);
}

static void offer_slots(pool *p, int slots) {
    atomic_store(&p->finished, 0);
    for (int word = 0; word * SLOT_BITS <= slots; word++) {
        unsigned some = slots - word * SLOT_BITS >= SLOT_BITS - 1 ? ~0U : (1U << (slots % SLOT_BITS + 1)) - 1;
        atomic_store(&p->slots[word], word ? some : some - 1);
    }
    if (!atomic_load(&p->sleepers)) return;
    system_lock_take(&p->sleep);
    system_wake_all(&p->wake);
    system_lock_release(&p->sleep);
}

// Returns how many nobody had taken.
static int withdraw_slots(pool *p, int slots) {
    int left = 0;
    for (int word = 0; word * SLOT_BITS <= slots; word++)
        for (unsigned bits = atomic_exchange(&p->slots[word], 0); bits; bits &= bits - 1) left++;
    return left;
}

static void wait_until_done(pool *p, int taken) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load(&p->finished) == taken) return;
        relax();
    }
    system_lock_take(&p->sleep);
    atomic_store(&p->waiting, 1);
    while (atomic_load(&p->finished) != taken) system_wait(&p->done, &p->sleep);
    atomic_store(&p->waiting, 0);
    system_lock_release(&p->sleep);
}

// If another call owns the pool, this call runs its tasks alone.
static void run_on_pool(onnxc_rt_task *task, void *const *context, int64_t tasks, int threads) {
    pool *p = &the_pool;
    if (!system_lock_try(&p->owner)) {
        task(context, 0, tasks, 0);
        return;
    }
    start_workers(p, threads - 1);
    int slots = p->workers < threads - 1 ? p->workers : threads - 1;
    p->job.task = task;
    p->job.context = context;
    p->job.threads = slots + 1;
    share_out(&p->job, tasks);
    offer_slots(p, slots);
    work(&p->job, 0);
    wait_until_done(p, slots - withdraw_slots(p, slots));
    system_lock_release(&p->owner);
}

// ---------------------------------------------------------------- the caller's own threads
typedef struct share {
    onnxc_rt_task *task;
    void *const *context;
    int64_t tasks;
    int parts;
} share;

static void run_share(void *arg, int part) {
    const share *s = arg;
    int64_t each = s->tasks / s->parts, more = s->tasks % s->parts;
    int64_t begin = each * part + (part < more ? part : more), end = begin + each + (part < more);
    if (begin < end) s->task(s->context, begin, end, part);
}

void onnxc_rt_parallel(onnxc_rt_task *task, void *const *context, int64_t tasks, int max_threads) {
    const onnxc_threads *t = settings;
    int threads = t && t->count > 0 ? t->count : onnxc_default_threads();
    if (threads > max_threads) threads = max_threads;
    if (threads > tasks) threads = (int)tasks;
    if (tasks <= 0) return;
    if (threads <= 1) {
        task(context, 0, tasks, 0);
    } else if (t && t->parallel_for) {
        share s = {task, context, tasks, threads};
        t->parallel_for(t->user, threads, run_share, &s);
    } else {
        run_on_pool(task, context, tasks, threads);
    }
}
