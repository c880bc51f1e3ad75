/* Requests from many threads, answered in batches: each worker takes what is waiting, up to BATCH requests, and runs the model once for them.
 * A worker has a workspace of its own and no other thread: requests are the parallelism. */
#include "digits.h"
#include "digits_data.h"
#include <onnxc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 16, WORKERS = 2, CLIENTS = 32, REQUESTS = 500 };

typedef struct request {
    const unsigned char *pixels;
    int answer, done;
    pthread_cond_t ready;
    struct request *next;
} request;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t waiting = PTHREAD_COND_INITIALIZER;
static request *first, **last = &first;
static long runs, answered, right;
static int closed;

/* At most BATCH requests, at least one; 0: the server is closed. With the lock held. */
static int take(request *batch[BATCH]) {
    int n = 0;
    while (!first && !closed) pthread_cond_wait(&waiting, &lock);
    for (; first && n < BATCH; n++) {
        batch[n] = first;
        first = first->next;
    }
    if (!first) last = &first;
    return n;
}

static void answer(request *batch[BATCH], int n, float *images, void *workspace, size_t size) {
    float logits[BATCH * 10];
    digits_in in = {.image_dim0 = n, .image = images};
    digits_out out = {.logits = logits};
    for (int i = 0; i < n; i++)
        for (int j = 0; j < 64; j++) images[64 * i + j] = batch[i]->pixels[j];
    int failed = digits_run(&in, &out, workspace, size);
    if (failed) fprintf(stderr, "digits: %s\n", out.message);
    for (int i = 0; i < n; i++) {
        batch[i]->answer = -1; // a run that fails answers none of its requests
        if (failed) continue;
        const float *row = logits + 10 * i;
        int best = 0;
        for (int j = 1; j < 10; j++) best = row[j] > row[best] ? j : best;
        batch[i]->answer = best;
    }
}

static void *work(void *unused) {
    static const onnxc_threads one = {.count = 1};
    float images[BATCH * 64];
    void *workspace = aligned_alloc(DIGITS_WORKSPACE_ALIGN, DIGITS_WORKSPACE_BYTES_MAX);
    request *batch[BATCH];
    (void)unused;
    if (!workspace) abort();
    onnxc_use_threads(&one);
    pthread_mutex_lock(&lock);
    for (int n; (n = take(batch)) > 0;) {
        pthread_mutex_unlock(&lock);
        answer(batch, n, images, workspace, DIGITS_WORKSPACE_BYTES_MAX);
        pthread_mutex_lock(&lock);
        runs++, answered += n;
        for (int i = 0; i < n; i++) {
            batch[i]->done = 1;
            pthread_cond_signal(&batch[i]->ready);
        }
    }
    pthread_mutex_unlock(&lock);
    free(workspace);
    return NULL;
}

static int ask(const unsigned char *pixels) {
    request r = {.pixels = pixels, .ready = PTHREAD_COND_INITIALIZER};
    pthread_mutex_lock(&lock);
    *last = &r;
    last = &r.next;
    pthread_cond_signal(&waiting);
    while (!r.done) pthread_cond_wait(&r.ready, &lock);
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&r.ready);
    return r.answer;
}

static void *client(void *number) {
    for (long i = 0, mine = 0; i < REQUESTS; i++) {
        int k = (int)((i + *(int *)number) % DIGITS_SHOWN);
        mine += ask(digits_image[k]) == digits_label[k];
        if (i + 1 < REQUESTS) continue;
        pthread_mutex_lock(&lock);
        right += mine;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(void) {
    pthread_t workers[WORKERS], clients[CLIENTS];
    int number[CLIENTS];
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&workers[i], NULL, work, NULL)) abort();
    for (int i = 0; i < CLIENTS; i++) {
        number[i] = i;
        if (pthread_create(&clients[i], NULL, client, &number[i])) abort();
    }
    for (int i = 0; i < CLIENTS; i++) pthread_join(clients[i], NULL);
    pthread_mutex_lock(&lock);
    closed = 1;
    pthread_cond_broadcast(&waiting);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < WORKERS; i++) pthread_join(workers[i], NULL);
    printf("%ld requests from %d threads, %ld right; more than one request per run: %s\n", answered, CLIENTS,
           right, runs < answered ? "yes" : "no");
    return right != answered;
}
