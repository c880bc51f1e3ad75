// In: a module with its host functions. Out: what a run calls outside of it, as reasons why a run may wait. A
// depth-first search over calls, from NAME_run and NAME_run_generic on; the steps of the program say why a
// function is called. Times that depend on data are found in the loops of kernels and in the program.
#include "codegen/host/real_time.h"
#include "codegen/host/host_impl.h"
#include "ir/kernel/library.h"
#include <string.h>

enum { SHOWN_MOST = 3 };

typedef struct search {
    host_builder *a;
    arena *arena;
    map functions; // of the module, by name
    map seen;      // names of functions
    real_time *result;
} search;

static void add_once(arena *a, string_list *to, const char *s) {
    for (int i = 0; i < to->n; i++)
        if (strcmp(to->at[i], s) == 0) return;
    VEC_PUSH(a, to, s);
}

static const char *at_node(arena *a, const loc *at, const char *what) {
    text t = {.arena = a};
    if (at && at->node) text_add_node(&t, at, false), text_add(&t, ": ");
    text_add(&t, what);
    return text_str(&t);
}

// ---------------------------------------------------------------- reasons
static bool begins(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

static void explain_memory(search *s, const host_builder *part) {
    step_list steps = program_steps(s->arena, part->p);
    for (int i = 0; i < steps.n; i++) {
        const step *x = steps.at[i].s;
        if (x->kind != STEP_ALLOC || !on_heap(x->buffer)) continue;
        const char *what =
            arena_printf(s->arena, "memory for '%s', whose size depends on data, is allocated%s",
                         safe_text(s->arena, x->buffer->name),
                         part->result_of[x->buffer->id] ? " if the output has no room" : "");
        add_once(s->arena, &s->result->faults, at_node(s->arena, x->loc, what));
    }
}

static void explain_library(search *s, const program *p, const char *function) {
    const char *what = library_calls_runtime(function) ? "calls the operating system" : "allocates memory";
    step_list steps = program_steps(s->arena, p);
    for (int i = 0; i < steps.n; i++) {
        const step *x = steps.at[i].s;
        if (x->kind != STEP_LIB || strcmp(x->lib, function) != 0) continue;
        what = arena_printf(s->arena, "the library function '%s' %s", function, what);
        add_once(s->arena, &s->result->faults, at_node(s->arena, x->loc, what));
        return;
    }
}

static void explain_threads(search *s, const host_builder *part) {
    const kernel *first = NULL;
    int n = 0;
    for (int k = 0; k < part->p->kernels.n; k++) {
        bool parallel = false;
        for (int j = 0; j < part->nvariants && !part->gpu; j++) {
            const kernel_code *c = part->h[j].code[k];
            parallel |= c && runs_parallel(&part->h[j], c);
        }
        n += parallel;
        if (parallel && !first) first = part->p->kernels.at[k];
    }
    if (!n) return;
    const char *others = n == 1 ? "" : arena_printf(s->arena, " (and %d more)", n - 1);
    add_once(s->arena, &s->result->faults,
             arena_printf(s->arena, "kernel %s%s wakes threads and waits for them; --threads=1 prevents that",
                          short_text(s->arena, first->name), others));
}

static const char *library_of(const char *symbol) {
    return begins(symbol, "onnxc_lib_") ? symbol + strlen("onnxc_lib_") : NULL;
}

// Functions that neither allocate nor wait. Names of the compiler's support library begin with underscores.
// onnxc_rt_message stores its text in memory of the thread.
static bool is_harmless(const char *symbol) {
    // clang-format off
    static const char *const names[] = {"memcpy", "memmove", "memset", "memcmp", "onnxc_rt_avx_vnni", "onnxc_rt_bf16_pairs", "onnxc_rt_tiles_at_start",
                                        "onnxc_rt_vector_bits", "onnxc_rt_message", "onnxc_lib_custom", NULL};
    // clang-format on
    for (int i = 0; names[i]; i++)
        if (strcmp(symbol, names[i]) == 0) return true;
    const char *lib = library_of(symbol);
    if (lib) return library_find(lib) && !library_allocates(lib);
    return begins(symbol, "__") || begins(symbol, "_GLOBAL_") || begins(symbol, "onnxc_interface_");
}

static bool explained(const char *symbol) {
    return strcmp(symbol, "onnxc_rt_free") == 0 || strcmp(symbol, "onnxc_lib_release") == 0;
}

static const char asks_for_tiles[] = "the first run asks the operating system for matrix tiles; with "
                                     "--threads=1 it is asked when the program starts";

static void explain(search *s, const char *symbol) {
    host_builder *a = s->a;
    if (is_harmless(symbol) || explained(symbol)) return;
    if (a->o->hook && strcmp(symbol, a->o->hook) == 0) {
        add_once(s->arena, &s->result->callbacks, symbol);
        return;
    }
    const char *lib = library_of(symbol);
    int before = s->result->faults.n;
    for (int j = 0; j < a->parts.n; j++) {
        const host_builder *part = a->parts.at[j];
        if (strcmp(symbol, "onnxc_rt_alloc") == 0) explain_memory(s, part);
        else if (strcmp(symbol, "onnxc_rt_parallel") == 0) explain_threads(s, part);
        else if (lib) explain_library(s, part->p, lib);
    }
    if (begins(symbol, "onnxc_rt_gpu_")) add_once(s->arena, &s->result->faults, "a GPU runs its kernels");
    else if (strcmp(symbol, "onnxc_rt_tiles") == 0) add_once(s->arena, &s->result->faults, asks_for_tiles);
    else if (s->result->faults.n == before) real_time_add_symbol(s->arena, s->result, symbol);
}

void real_time_add_symbol(arena *a, real_time *r, const char *symbol) {
    if (!is_harmless(symbol) && !explained(symbol))
        add_once(a, &r->faults, arena_printf(a, "%s is called, which is not known to be safe", symbol));
}

// ---------------------------------------------------------------- calls
static void visit(search *s, const char *name);

static void visit_block(search *s, const lblock *b) {
    for (const ins *x = b->first; x; x = x->next) {
        if (x->op == L_CALL || x->op == L_SYMBOL) visit(s, x->name);
        for (int i = 0; i < 2; i++)
            if (x->body[i]) visit_block(s, x->body[i]);
    }
}

static void visit(search *s, const char *name) {
    const lfunc *f = map_get(&s->functions, name);
    if (!f || map_get(&s->seen, name)) return;
    map_put(&s->seen, name, (void *)f);
    if (f->original) f = f->original;
    if (f->body) visit_block(s, f->body);
    else explain(s, name);
}

static void note_custom(search *s, const program *p) {
    step_list steps = program_steps(s->arena, p);
    for (int i = 0; i < steps.n; i++) {
        const char *symbol = steps.at[i].s->symbol;
        if (!symbol) continue;
        add_once(s->arena, &s->result->callbacks, symbol);
        map_put(&s->seen, symbol, (void *)symbol);
    }
}

// ---------------------------------------------------------------- times
// Marks the values of a function that come from memory, by their ids; one pass over the function.
static bool mark_block(bool *from_data, const lblock *b) {
    bool changed = false;
    for (const ins *x = b->first; x; x = x->next) {
        bool data = x->op == L_LOAD || x->op == L_LOADN || x->op == L_GATHER || x->op == L_CALL;
        for (int i = 0; i < x->nargs; i++) data |= from_data[x->args[i]->id];
        const ins *to = x->op == L_SET ? x->args[0] : x; // a variable that is set
        changed |= data && !from_data[to->id];
        from_data[to->id] |= data;
        for (int i = 0; i < 2; i++)
            if (x->body[i]) changed |= mark_block(from_data, x->body[i]);
    }
    return changed;
}

static bool loops_by_data(const bool *from_data, const lblock *b) {
    for (const ins *x = b->first; x; x = x->next) {
        bool bounds = x->op == L_BREAK || x->op == L_FOR;
        for (int i = 0; i < x->nargs && bounds; i++)
            if (from_data[x->args[i]->id]) return true;
        for (int i = 0; i < 2; i++)
            if (x->body[i] && loops_by_data(from_data, x->body[i])) return true;
    }
    return false;
}

static bool has_loops_by_data(arena *a, const lfunc *f) {
    if (f->original) f = f->original;
    if (!f->body) return false;
    bool *from_data = ARENA_ARRAY(a, bool, f->nins + 1);
    while (mark_block(from_data, f->body)) {
    }
    return loops_by_data(from_data, f->body);
}

static bool has_opaque_axis(const kernel *k) {
    for (int i = 0; i < k->axes.n; i++)
        if (dim_is_opaque(k->axes.at[i].extent)) return true;
    return false;
}

static void time_kernel(search *s, const host_builder *part, const kernel *k) {
    bool by_data = has_opaque_axis(k);
    for (int j = 0; j < part->nvariants && !by_data && !part->gpu; j++) {
        const kernel_code *c = part->h[j].code[k->id];
        by_data = c && has_loops_by_data(s->arena, c->f);
    }
    if (by_data)
        add_once(s->arena, &s->result->varying,
                 arena_printf(s->arena, "kernel %s has a loop whose length depends on data",
                              short_text(s->arena, k->name)));
}

static void time_loop(search *s, const step *x) {
    arena *a = s->arena;
    const dim *most = x->dim ? dim_largest(x->dim) : NULL;
    bool bounded = most && most->max < INT64_MAX / 2;
    if (!x->buffer && x->dim && !dim_is_opaque(x->dim)) return;
    const char *what = bounded
                           ? arena_printf(a, "the number of iterations depends on data, and is at most %lld",
                                          (long long)most->max)
                           : "the number of iterations depends on data";
    add_once(a, &s->result->varying, at_node(a, x->loc, what));
}

static void find_times(search *s, const host_builder *part) {
    step_list steps = program_steps(s->arena, part->p);
    for (int i = 0; i < steps.n; i++) {
        const step *x = steps.at[i].s;
        if (x->kind == STEP_LOOP) time_loop(s, x);
        if (x->kind == STEP_KERNEL) time_kernel(s, part, x->kernel);
        if (x->kind != STEP_LIB || x->symbol) continue;
        const char *what =
            arena_printf(s->arena, "the time of the library function '%s' depends on data", x->lib);
        add_once(s->arena, &s->result->varying, at_node(s->arena, x->loc, what));
    }
}

// ---------------------------------------------------------------- the analysis
real_time *real_time_find(host_builder *a) {
    search s = {.a = a, .arena = a->arena, .functions.arena = a->arena, .seen.arena = a->arena};
    s.result = ARENA_NEW(a->arena, real_time);
    for (int i = 0; i < a->m->funcs.n; i++) map_put(&s.functions, a->m->funcs.at[i]->name, a->m->funcs.at[i]);
    for (int j = 0; j < a->parts.n; j++) note_custom(&s, a->parts.at[j]->p);
    visit(&s, arena_printf(a->arena, "%s_run", a->io->name));
    visit(&s, arena_printf(a->arena, "%s_run_generic", a->io->name));
    for (int j = 0; j < a->parts.n; j++) find_times(&s, a->parts.at[j]);
    return s.result;
}

static void add_list(text *t, const string_list *l, const char *between) {
    for (int i = 0; i < l->n && i < SHOWN_MOST; i++) text_printf(t, "%s%s", i ? between : "", l->at[i]);
    if (l->n > SHOWN_MOST) text_printf(t, "%sand %d more", between, l->n - SHOWN_MOST);
}

const char *real_time_condition(arena *a, const real_time *r) {
    text t = {.arena = a};
    if (!r->callbacks.n) return "";
    text_add(&t, "if ");
    add_list(&t, &r->callbacks, ", ");
    text_add(&t, r->callbacks.n == 1 ? " is" : " are");
    return text_str(&t);
}

const char *real_time_reasons(arena *a, const real_time *r) {
    text t = {.arena = a};
    add_list(&t, &r->faults, "; ");
    return text_str(&t);
}

const char *real_time_text(arena *a, const real_time *r) {
    if (r->faults.n) return arena_printf(a, "no: %s", real_time_reasons(a, r));
    return r->callbacks.n ? arena_printf(a, "yes, %s", real_time_condition(a, r)) : "yes";
}
