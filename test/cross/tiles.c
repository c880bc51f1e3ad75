/* Calls a product of bytes: as it is, from threads that exist before the first call, in a child of fork, or after an
 * alternative signal stack that is too small for matrix tiles, so that Linux refuses them.
 * usage: tiles plain|threads|fork|refused      prints the code of the calls, whether results are right, and whether the
 * process may use tiles at the end */
#define _GNU_SOURCE
#include "tiles.h"
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 40, DEPTH = 128, COLUMNS = 48, THREADS = 3, ARCH_GET_XCOMP_PERM = 0x1022, TILE_DATA = 18 };

static uint8_t x[ROWS][DEPTH];
static pthread_barrier_t start;

/* As objects.py fills the constant. */
static int weight(int k, int n) { return ((k * COLUMNS + n) * 7 % 251) - 125; }

static int is_right(int32_t y[ROWS][COLUMNS]) {
    for (int m = 0; m < ROWS; m++)
        for (int n = 0; n < COLUMNS; n++) {
            int32_t sum = 0;
            for (int k = 0; k < DEPTH; k++) sum += x[m][k] * weight(k, n);
            if (y[m][n] != sum) return 0;
        }
    return 1;
}

typedef struct answer {
    int code, right;
} answer;

static answer call(void) {
    static _Thread_local int32_t y[ROWS][COLUMNS];
    static _Thread_local _Alignas(64) unsigned char workspace[1 << 16];
    memset(y, 1, sizeof y);
    tiles_in in = {.x = &x[0][0]};
    tiles_out out = {.y = &y[0][0]};
    answer a = {.code = tiles_run(&in, &out, workspace, sizeof workspace)};
    a.right = is_right(y);
    return a;
}

static void *wait_and_call(void *to) {
    pthread_barrier_wait(&start);
    *(answer *)to = call();
    return NULL;
}

/* The threads exist when the first call asks for tiles. */
static answer call_from_threads(void) {
    pthread_t t[THREADS];
    answer a[THREADS], own;
    pthread_barrier_init(&start, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, wait_and_call, &a[i]);
    own = call();
    pthread_barrier_wait(&start);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
        own.right &= a[i].right;
        if (a[i].code) own.code = a[i].code;
    }
    return own;
}

static void use_small_stack(void) {
    static unsigned char memory[4096];
    stack_t s = {.ss_sp = memory, .ss_size = sizeof memory};
    if (sigaltstack(&s, NULL)) puts("sigaltstack failed");
}

/* The call before gives the child what it has. */
static answer call_in_child(void) {
    answer a = call();
    pid_t child = fork();
    if (child == 0) {
        answer own = call();
        _exit(own.code == a.code && own.right == a.right ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (status) puts("the child differs");
    return a;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "plain";
    for (int i = 0; i < ROWS * DEPTH; i++) x[i / DEPTH][i % DEPTH] = (uint8_t)(i * 37 % 256);
    if (!strcmp(how, "refused")) use_small_stack();
    answer a = !strcmp(how, "threads") ? call_from_threads()
               : !strcmp(how, "fork")  ? call_in_child()
                                       : call();
    uint64_t allowed = 0;
    syscall(SYS_arch_prctl, ARCH_GET_XCOMP_PERM, &allowed);
    printf("code %d, %s, tiles %s\n", a.code, a.right ? "right" : "wrong",
           allowed >> TILE_DATA & 1 ? "allowed" : "not allowed");
    return 0;
}
