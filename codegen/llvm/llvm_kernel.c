// Names by content. Kernels with the same instructions, target and options get the same name, independently of their
// node is called, and linkers keep one of them (COMDAT). A call of another kernel counts as its content. The compile cache stores emissions under such names.
#include "codegen/llvm/cache.h"
#include "codegen/llvm/llvm_impl.h"
#include "ir/loops/weights.h"
#include <llvm-c/Core.h>
#include <llvm-c/blake3.h>
#include <string.h>

typedef struct hasher {
    llvm_blake3_hasher h;
    const lmodule *m;
    arena *arena;
    bool own; // refers to symbols of this module
    // By ins id: order of definition in the function, which does not depend on what was dropped. Constants have none: they
    // are content where they are used.
    int *number;
    int numbered;
} hasher;

static void add(hasher *h, const void *p, size_t n) { llvm_blake3_hasher_update(&h->h, p, n); }
static void add_int(hasher *h, int64_t v) { add(h, &v, sizeof v); }
static void add_string(hasher *h, const char *s) { s ? add(h, s, strlen(s) + 1) : add(h, "", 1); }

static const lfunc *own_function(const lmodule *m, const char *name) {
    for (int i = 0; i < m->funcs.n; i++)
        if (m->funcs.at[i]->body && !strcmp(m->funcs.at[i]->name, name)) return m->funcs.at[i];
    return NULL;
}

static bool is_own_data(const lmodule *m, const char *name) {
    for (int i = 0; i < m->data.n; i++)
        if (!strcmp(m->data.at[i]->name, name)) return true;
    return false;
}

static void add_symbol(hasher *h, const ins *x) {
    const lfunc *f = own_function(h->m, x->name);
    const char *content = f && f->kernel && !f->exported ? kernel_symbol(h->arena, h->m, f) : NULL;
    add_string(h, content ? content : x->name);
    if (!content && (f || is_own_data(h->m, x->name))) h->own = true;
}

static void add_operand(hasher *h, const ins *x) {
    add_int(h, x->op == L_CONST ? -1 : h->number[x->id]);
    if (x->op != L_CONST) return;
    int64_t constant[] = {x->type.kind, x->type.lanes, x->i};
    add(h, constant, sizeof constant);
    add(h, &x->f, sizeof x->f);
}

static void add_block(hasher *h, const lblock *b);

static void add_ins(hasher *h, const ins *x) {
    add_string(h, lop_name(x->op)); // not the number: names do not depend on the order of rows in loops.def
    h->number[x->id] = h->numbered++;
    int64_t head[] = {x->type.kind,      x->type.lanes, h->number[x->id], x->nargs, x->i,
                      x->elem,           x->shared,     x->align,         x->role,  x->body[0] != NULL,
                      x->body[1] != NULL};
    add(h, head, sizeof head);
    add(h, &x->f, sizeof x->f);
    for (int i = 0; i < x->nargs; i++) add_operand(h, x->args[i]);
    if (x->op == L_SYMBOL || x->op == L_CALL) add_symbol(h, x);
    if (x->mask) add(h, x->mask, x->type.lanes * sizeof *x->mask);
    for (int i = 0; i < 2; i++)
        if (x->body[i]) add_block(h, x->body[i]);
}

static void add_block(hasher *h, const lblock *b) {
    for (const ins *x = b->first; x; x = x->next)
        if (x->op != L_COMMENT && x->op != L_CONST) add_ins(h, x);
    add_int(h, -1);
}

static void add_body(hasher *h, arena *a, const lfunc *f) {
    h->number = ARENA_ARRAY(a, int, f->nins + 1);
    h->numbered = 0;
    add_block(h, f->body);
}

static void add_target(hasher *h, const target *t) {
    unsigned version[3];
    LLVMGetVersion(&version[0], &version[1], &version[2]);
    add(h, version, sizeof version);
    add_string(h, t->triple);
    add_string(h, t->cpu);
    add_string(h, t->features);
    add_string(h, t->abi);
    add_string(h, t->float_abi);
    int64_t options[] = {t->fp, t->opt, t->size_level, t->hosted, t->freestanding, t->sve_bits};
    add(h, options, sizeof options);
#ifdef ONNXC_VERSION
    add_string(h, ONNXC_VERSION);
#endif
}

static void add_params(hasher *h, const lfunc *f) {
    for (int i = 0; i < f->params.n; i++) {
        const lparam *p = &f->params.at[i];
        int64_t parts[] = {p->type.kind, p->type.lanes, p->is_const, p->constant, p->dtype};
        add(h, parts, sizeof parts);
    }
    int64_t rest[] = {f->params.n, f->result.kind, f->result.lanes, f->noalias, f->strict_fp};
    add(h, rest, sizeof rest);
}

// "onnxc_k_" and 128 bits in base 32: chance equality is out of the question.
const char *kernel_symbol(arena *a, const lmodule *m, const lfunc *f) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuv";
    hasher h = {.m = m, .arena = a};
    llvm_blake3_hasher_init(&h.h);
    add_target(&h, f->target);
    add_params(&h, f);
    add_body(&h, a, f);
    if (h.own) return NULL;
    uint8_t hash[26];
    llvm_blake3_hasher_finalize(&h.h, hash, sizeof hash);
    char name[sizeof hash + 1] = {0};
    for (size_t i = 0; i < sizeof hash; i++) name[i] = digits[hash[i] % 32];
    return arena_printf(a, "onnxc_k_%s", name);
}

// ---------------------------------------------------------------- emissions
static void add_function(hasher *h, const emit *e, int i) {
    const lfunc *f = e->m->funcs.at[i];
    bool here = f->body && (!e->plan || e->plan->piece[i] == e->piece);
    int64_t facts[] = {f->body != NULL, here, f->exported, f->kernel};
    add(h, facts, sizeof facts);
    add_string(h, f->name);
    add_string(h, e->plan ? e->plan->symbols[i] : NULL);
    add_target(h, f->target);
    add_params(h, f);
    if (here) add_body(h, e->arena, f);
}

const char *emission_key(const emit *e) {
    hasher h = {.m = e->m, .arena = e->arena};
    llvm_blake3_hasher_init(&h.h);
    add_string(&h, cache_identity(e->arena));
    add_string(&h, e->m->name);
    add_target(&h, e->m->target);
    int64_t facts[] = {e->kind, e->piece, e->plan != NULL, data_is_large(e->m)};
    add(&h, facts, sizeof facts);
    for (int i = 0; i < e->m->data.n && e->piece == 0; i++) {
        const ldata *d = e->m->data.at[i];
        int64_t shape[] = {d->bytes, d->align, d->exported, d->variable};
        add_string(&h, d->name);
        add(&h, shape, sizeof shape);
    }
    for (int i = 0; i < e->m->funcs.n; i++)
        if (emits_mention(e, i)) add_function(&h, e, i);
    uint8_t hash[32];
    llvm_blake3_hasher_finalize(&h.h, hash, sizeof hash);
    text t = {.arena = e->arena};
    for (size_t i = 0; i < sizeof hash; i++) text_printf(&t, "%02x", hash[i]);
    return text_str(&t);
}
