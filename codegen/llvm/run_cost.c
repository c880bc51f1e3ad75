// In: a module. Out: instructions and cycles of a run. The listing tells of every block of machine code from which block of the loops it
// comes, loops_count how often that runs.
#include "codegen/llvm/run_cost.h"
#include "codegen/llvm/llvm.h"
#include "ir/loops/loops_count.h"
#include <stdlib.h>
#include <string.h>

typedef struct estimate {
    arena *arena;
    const lmodule *m;
    const core_model *core;
    map labels;   // of functions, by name
    map same;     // labels of equal functions: the one that has code
    map of_label; // map of code_cost by number of a block
    run_cost *result;
} estimate;

static void add(code_cost *to, code_cost c, double times) {
    to->instructions += times * c.instructions;
    to->cycles += times * c.cycles;
}

// ---------------------------------------------------------------- the listing
// "p5.2_" with what LLVM adds: code in front of or after a loop belongs to the block around it, code between two
// blocks to the second. -1: no such name.
static int block_of(const char *comment) {
    const char *name = strstr(comment, "%p");
    if (!name) return -1;
    const char *edge = strstr(name, "_crit_edge"), *second = edge ? strstr(name, ".p") : NULL;
    if (second && second < edge) name = second;
    char *end;
    long own = strtol(name + 2, &end, 10), outer = strtol(*end == '.' ? end + 1 : end, &end, 10);
    bool around = strstr(end, ".preheader") || strstr(end, ".lr.ph") || strstr(end, "._crit_edge");
    return (int)(around ? outer : own);
}

static code_cost *cost_at(arena *a, map *blocks, int block) {
    code_cost *c = map_get_number(blocks, (uint64_t)block + 1);
    if (!c) map_put_number(blocks, (uint64_t)block + 1, c = ARENA_NEW(a, code_cost));
    return c;
}

// "label:" of a function, ".LBB0_2: @ %p5.2_", "@ %bb.1: @ %p3.0_", an instruction, or ".set label, other".
static void read_line(estimate *e, const char *line, map **blocks, int *block) {
    size_t label = strcspn(line, ": \t=,");
    bool in_function = *line == '.' || *line == '@' || *line == '#';
    if (*line == '\t' && line[1] >= 'a' && line[1] <= 'z') {
        if (*blocks) add(cost_at(e->arena, *blocks, *block), core_cost(e->core, line + 1), 1);
    } else if (!strncmp(line, "\t.set\t", 6)) {
        size_t n = strcspn(line + 6, ",");
        map_put(&e->same, arena_strndup(e->arena, line + 6, n), arena_strdup(e->arena, line + 6 + n + 2));
    } else if (in_function) {
        int named = block_of(line);
        if (named >= 0) *block = named;
    } else if (line[label] == ':') {
        *blocks = ARENA_NEW(e->arena, map);
        (*blocks)->arena = e->arena;
        *block = 0;
        map_put(&e->of_label, arena_strndup(e->arena, line, label), *blocks);
    }
}

static void read_listing(estimate *e, bytes text) {
    map *blocks = NULL;
    int block = 0;
    char *line = arena_strndup(e->arena, (const char *)text.at, text.n), *next;
    for (; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        read_line(e, line, &blocks, &block);
    }
}

// ---------------------------------------------------------------- the sum
static void visit(void *user, const counted_block *b) {
    estimate *e = user;
    const char *label = map_get(&e->labels, b->f->name), *other = label ? map_get(&e->same, label) : NULL;
    map *blocks = label ? map_get(&e->of_label, label) : NULL;
    if (!blocks && other) blocks = map_get(&e->of_label, other);
    const code_cost *c = blocks ? map_get_number(blocks, (uint64_t)b->block + 1) : NULL;
    if (!c) return;
    add(&e->result->all, *c, b->times);
    if (!b->kernel) return;
    code_cost *of = map_get(&e->result->of_function, b->kernel->name);
    if (!of)
        map_put(&e->result->of_function, b->kernel->name,
                of = ARENA_NEW(e->result->of_function.arena, code_cost));
    add(of, *c, b->times);
}

const run_cost *run_cost_estimate(const lmodule *m, const char *entry, arena *a, diag *d) {
    estimate e = {.m = m, .core = core_model_of(m->target), .arena = arena_new()};
    e.labels.arena = e.same.arena = e.of_label.arena = e.arena;
    e.result = ARENA_NEW(a, run_cost);
    e.result->of_function.arena = a;
    const lfunc *f = NULL;
    for (int i = 0; i < m->funcs.n; i++)
        if (!strcmp(m->funcs.at[i]->name, entry)) f = m->funcs.at[i];
    bool known = e.core && f && f->body;
    if (known) {
        read_listing(&e, llvm_emit_listing(m, &e.labels, e.arena, d));
        known = loops_count(e.arena, m, f, visit, &e);
    }
    arena_destroy(e.arena);
    return known ? e.result : NULL;
}
