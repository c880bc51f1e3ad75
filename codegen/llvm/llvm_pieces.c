// Compiles large modules in pieces, each in its own LLVM context: the first contains the host code, the
// others contain kernels without references to the module, except calls of each other. The partition depends on the module only, so the
// object does not depend on the number of threads.
#include "codegen/llvm/cache.h"
#include "codegen/llvm/llvm_impl.h"
#include "codegen/object/elf.h"
#include "compiler/base/jobs.h"
#include <stdatomic.h>

enum { KERNELS_A_PIECE = 32, KERNELS_A_LOADED_PIECE = 8 };

typedef struct piece {
    arena *arena;
    diag diag;
    VEC(const diag_message *) messages;
    bytes object;
    bool failed;
} piece;

typedef struct work {
    const lmodule *m;
    const emit_plan *plan;
    const cache *cache;
    piece *pieces;
    const emit_means *by;
    emit_kind kind;
    atomic_int done;
} work;

// ---------------------------------------------------------------- partition
// Pieces are joined as ELF.
static bool is_splittable(const lmodule *m) {
    return m->target->hosted && m->target->format == OBJECT_ELF && !m->debug_info;
}

static void add_calls(const lblock *b, const map *number, bool *calls) {
    for (const ins *x = b->first; x; x = x->next) {
        bool refers = x->op == L_CALL || x->op == L_SYMBOL;
        if (refers && map_get(number, x->name)) calls[(intptr_t)map_get(number, x->name) - 1] = true;
        for (int j = 0; j < 2; j++)
            if (x->body[j]) add_calls(x->body[j], number, calls);
    }
}

static void find_calls(emit_plan *p, const lmodule *m, arena *a) {
    map number = {.arena = a};
    p->calls = ARENA_ARRAY(a, bool *, p->n);
    for (int i = 0; i < p->n; i++) p->calls[i] = ARENA_ARRAY(a, bool, m->funcs.n + 1);
    for (int i = 0; i < m->funcs.n; i++)
        if (p->symbols[i]) map_put(&number, m->funcs.at[i]->name, (void *)(intptr_t)(i + 1));
    for (int i = 0; i < m->funcs.n; i++)
        if (p->piece[i] && !m->funcs.at[i]->original)
            add_calls(m->funcs.at[i]->body, &number, p->calls[p->piece[i]]);
}

// Equal kernels have the same name and belong to the piece of the first one.
static emit_plan *make_plan(const lmodule *m, int each, arena *a) {
    emit_plan *p = ARENA_NEW(a, emit_plan);
    map first = {.arena = a}, known = first;
    p->symbols = ARENA_ARRAY(a, const char *, m->funcs.n + 1);
    p->piece = ARENA_ARRAY(a, int, m->funcs.n + 1);
    for (int i = 0; i < m->funcs.n; i++) {
        const lfunc *f = m->funcs.at[i];
        if (!f->kernel || !f->body || f->exported) continue;
        p->symbols[i] =
            f->original ? map_get_number(&known, (uint64_t)(uintptr_t)f->original) : kernel_symbol(a, m, f);
        map_put_number(&known, (uint64_t)(uintptr_t)f, (void *)p->symbols[i]);
        if (p->symbols[i] && !map_get(&first, p->symbols[i]))
            map_put(&first, p->symbols[i], (void *)(intptr_t)(first.n + 1));
    }
    p->n = first.n > each ? 1 + (first.n + each - 1) / each : 1;
    for (int i = 0; i < m->funcs.n && p->n > 1; i++)
        if (p->symbols[i])
            p->piece[i] = 1 + (int)(((intptr_t)map_get(&first, p->symbols[i]) - 1) * (p->n - 1) / first.n);
    find_calls(p, m, a);
    return p;
}

// ---------------------------------------------------------------- the pieces
static void keep_message(void *user, const diag_message *m) {
    piece *p = user;
    VEC_PUSH(p->arena, &p->messages, m);
}

static void out_of_memory(void *user) {
    diag_fatal(&((piece *)user)->diag, NULL, "out of memory while compiling");
}

static void compile_piece(void *user, int i) {
    work *w = user;
    piece *p = &w->pieces[i];
    jmp_buf jump;
    if (DIAG_TRY(&p->diag, jump))
        p->object = llvm_emit_piece(w->m, w->kind, w->plan, i, w->cache, p->arena, &p->diag);
    else p->failed = true;
    if (w->by && w->by->progress) w->by->progress(w->by->user, atomic_fetch_add(&w->done, 1) + 1, w->plan->n);
}

// Reports the last message of the first piece that failed.
static void check_pieces(const work *w, diag *d) {
    for (int i = 0; i < w->plan->n; i++) {
        const piece *p = &w->pieces[i];
        if (!p->failed) continue;
        const diag_message *m = p->messages.n ? p->messages.at[p->messages.n - 1] : NULL;
        if (p->diag.class == DIAG_MISSING) diag_fatal_missing(d, m->loc, "%s", m->text);
        if (p->diag.class == DIAG_USER) diag_fatal(d, m->loc, "%s", m->text);
        diag_defect(d, NULL, "%s", m ? m->text : "part of the module was not compiled");
    }
}

static bytes emit_pieces(work *w, arena *a, diag *d) {
    int n = w->plan->n;
    w->pieces = ARENA_ARRAY(a, piece, n);
    for (int i = 0; i < n; i++) {
        piece *p = &w->pieces[i];
        p->arena = arena_within(a);
        arena_set_limit(p->arena, 0, out_of_memory, p);
        p->diag = (diag){.arena = p->arena, .sink = keep_message, .user = p, .file = d->file};
    }
    jobs_run(n, w->by ? w->by->threads : 1, compile_piece, w);
    check_pieces(w, d);
    bytes *objects = ARENA_ARRAY(a, bytes, n);
    for (int i = 0; i < n; i++) objects[i] = w->pieces[i].object;
    bytes all = elf_join(a, d, objects, n, n, w->m->name);
    for (int i = 0; i < n; i++) arena_destroy(w->pieces[i].arena);
    return all;
}

bytes llvm_emit_object(const lmodule *m, const emit_means *by, arena *a, diag *d) {
    work w = {.m = m, .cache = by ? by->cache : NULL, .by = by, .kind = EMIT_OBJECT};
    if (is_splittable(m)) w.plan = make_plan(m, KERNELS_A_PIECE, a);
    if (!w.plan || w.plan->n == 1) return llvm_emit_piece(m, EMIT_OBJECT, NULL, 0, w.cache, a, d);
    return emit_pieces(&w, a, d);
}

// Smaller pieces: code that runs here is waited for.
bytes llvm_emit_loadable(const lmodule *m, const emit_means *by, arena *a, diag *d) {
    work w = {.m = m, .cache = by ? by->cache : NULL, .by = by, .kind = EMIT_LOADABLE};
    if (is_splittable(m)) w.plan = make_plan(m, KERNELS_A_LOADED_PIECE, a);
    if (!w.plan || w.plan->n == 1) return llvm_emit_piece(m, EMIT_LOADABLE, w.plan, 0, w.cache, a, d);
    return emit_pieces(&w, a, d);
}
