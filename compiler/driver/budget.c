// In: a build, an object. Out: an error if it exceeds the bytes that the options allow.
#include "compiler/driver/budget.h"
#include "codegen/host/host.h"
#include "codegen/object/elf.h"
#include "compiler/driver/pipeline_impl.h"
#include "passes/memory/memory_peak.h"
#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum { PATCH_TRIALS = 6, LEAST_SAVING = 16, KERNELS_SHOWN = 5, PARTS_SHOWN = 20 };

// ---------------------------------------------------------------- patches
// -1: none.
static int64_t memory_limit(pipeline *p) {
    memory_pools pools = options_pools(p->arena, p->options);
    int64_t sum = pools.n ? 0 : options_max_workspace(p->options);
    for (int j = 0; j < pools.n; j++) sum += pools.at[j].bytes;
    return sum;
}

// Kernels run in patches only if the workspace is too large otherwise. The pass knows neither the scratch memory of kernels nor
// where results overlap operands: what the workspace exceeds the limit by is added to what the pass is to save,
// at least a 16th.
void choose_patches(pipeline *p, goal g) {
    int64_t most = memory_limit(p), target = most, best = INT64_MAX;
    if (most < 0) return;
    p->patched_to = most ? most : 1;
    if (sizes_with_versions(p).n || source_is_program(p->source) || g < GOAL_LOOPS) return;
    arena *a = arena_new();
    p->patched_to = 0;
    int64_t needs = pipeline_workspace(p, a, 0);
    for (int j = 0; needs > most && j < PATCH_TRIALS; j++) {
        int64_t now = pipeline_workspace(p, a, target > 0 ? target : 1);
        if (now < best) best = now, p->patched_to = target > 0 ? target : 1;
        if (now <= most || target <= 0) break;
        target -= now - most > target / LEAST_SAVING ? now - most : target / LEAST_SAVING;
    }
    arena_destroy(a);
}

// ---------------------------------------------------------------- workspace
// pools: that they are in; NULL: one workspace
static void add_live(text *t, const memory_plan *plan, int step, const memory_pools *pools) {
    for (int j = 0; j < plan->allocations.n; j++) {
        const allocation *m = &plan->allocations.at[j];
        if (step < m->first || step > m->last) continue;
        text_printf(t, "\n  %12s      ", dim_text(t->arena, m->size));
        if (m->buffer) text_add_short(t, m->buffer->name);
        else text_add(t, "scratch memory of the kernel");
        if (pools && m->pool == pools->n) text_add(t, " (fits no pool)");
        else if (pools) text_printf(t, " (%s)", pools->at[m->pool].name);
    }
}

// The kernels with most memory, each with what is in it.
static const char *workspace_table(arena *a, const program *p, const memory_plan *plan, int64_t most) {
    text t = {.arena = a};
    memory_uses all = memory_peaks(a, p, plan);
    int over = 0;
    while (over < all.n && all.at[over].bytes > most) over++;
    text_add(&t, "         bytes  kernel, and what is in memory");
    for (int j = 0; j < all.n && (!j || (j < over && j < KERNELS_SHOWN)); j++) {
        text_printf(&t, "\n  %12lld  ", (long long)all.at[j].bytes);
        if (all.at[j].kernel) text_printf(&t, "%d ", all.at[j].kernel->id);
        text_add_short(&t, all.at[j].kernel ? all.at[j].kernel->name : "a step that is not a kernel");
        add_live(&t, plan, all.at[j].step, NULL);
    }
    if (over > KERNELS_SHOWN)
        text_printf(&t, "\n  and %d more kernel%s with more than %lld bytes", over - KERNELS_SHOWN,
                    over - KERNELS_SHOWN == 1 ? "" : "s", (long long)most);
    return text_str(&t);
}

// What gives a size a bound that has none.
static const char *bound_hint(arena *a, const dim *size) {
    text t = {.arena = a};
    text_add(&t, "--dim NAME=N or NAME=MIN:MAX bounds a size");
    atom_list atoms = dim_atoms(a, size);
    const char *between = ", here ";
    for (int j = 0; j < atoms.n; j++) {
        if (atoms.at[j]->kind != DIM_SYMBOL || dim_upper(atoms.at[j]) < INT64_MAX) continue;
        text_printf(&t, "%s'%s'", between, atoms.at[j]->name);
        between = ", ";
    }
    return text_str(&t);
}

static void check_part(pipeline *p, const char *label, const program *of, const memory_plan *plan) {
    int64_t most = options_max_workspace(p->options), bytes = dim_upper(plan->workspace);
    const char *version = label ? arena_printf(p->arena, " for %s", label) : "";
    if (bytes <= most) return;
    if (!dim_is_const(plan->workspace) && bytes < INT64_MAX) {
        diag_error(p->diag, NULL, "--max-workspace=%s: the workspace%s has up to %lld bytes: %s",
                   p->options->max_workspace, version, (long long)bytes,
                   dim_brief(p->arena, plan->workspace));
        return;
    }
    if (!dim_is_const(plan->workspace)) {
        diag_hint(p->diag, "%s", bound_hint(p->arena, plan->workspace));
        diag_error(p->diag, NULL, "--max-workspace=%s: the workspace%s has %s bytes, which may be more",
                   p->options->max_workspace, version, dim_brief(p->arena, plan->workspace));
        return;
    }
    diag_table(p->diag, workspace_table(p->arena, of, plan, most));
    diag_error(p->diag, NULL, "--max-workspace=%s: the workspace%s needs %lld bytes",
               p->options->max_workspace, version, (long long)bytes);
}

void check_workspace(pipeline *p) {
    if (options_max_workspace(p->options) < 0) return;
    for (int j = 0; j < p->versions.n; j++)
        check_part(p, p->versions.at[j].label, p->versions.at[j].program, &p->versions.at[j].plan);
    if (!p->versions.n) check_part(p, NULL, p->program, &p->build->plan);
    diag_check(p->diag);
}

// ---------------------------------------------------------------- pools
static bool lacks_room(const memory_plan *plan, int step, int pools) {
    for (int j = 0; j < plan->allocations.n; j++) {
        const allocation *m = &plan->allocations.at[j];
        if (m->pool == pools && m->first <= step && step <= m->last) return true;
    }
    return false;
}

// The kernels with most memory among those at which some of it fits no pool.
static const char *pool_table(arena *a, const program *p, const memory_plan *plan,
                              const memory_pools *pools) {
    text t = {.arena = a};
    memory_uses all = memory_peaks(a, p, plan);
    text_add(&t, "         bytes  kernel, and what is in memory");
    for (int j = 0, shown = 0; j < all.n && shown < KERNELS_SHOWN; j++) {
        if (!lacks_room(plan, all.at[j].step, pools->n)) continue;
        text_printf(&t, "\n  %12lld  ", (long long)all.at[j].bytes);
        if (all.at[j].kernel) text_printf(&t, "%d ", all.at[j].kernel->id);
        text_add_short(&t, all.at[j].kernel ? all.at[j].kernel->name : "a step that is not a kernel");
        add_live(&t, plan, all.at[j].step, pools);
        shown++;
    }
    return text_str(&t);
}

static void check_pools_of(pipeline *p, const char *label, const program *of, const memory_plan *plan) {
    memory_pools pools = options_pools(p->arena, p->options);
    const char *version = label ? arena_printf(p->arena, " for %s", label) : "";
    text sizes = {.arena = p->arena};
    for (int j = 0; j < pools.n; j++)
        text_printf(&sizes, "%s%lld of %lld bytes of '%s'", j ? ", " : "", (long long)plan->pool_bytes[j],
                    (long long)pools.at[j].bytes, pools.at[j].name);
    if (plan->unbounded) {
        diag_hint(p->diag, "%s", bound_hint(p->arena, plan->unbounded_size));
        diag_error(p->diag, NULL, "--pool: the size of '%s'%s has no bound", plan->unbounded, version);
    } else if (plan->pool_bytes[pools.n]) {
        diag_table(p->diag, pool_table(p->arena, of, plan, &pools));
        diag_error(p->diag, NULL,
                   "--pool: the pools%s are too small: temporaries take %s, and %lld bytes fit in no pool",
                   version, text_str(&sizes), (long long)plan->pool_bytes[pools.n]);
    }
}

void check_pools(pipeline *p) {
    if (!p->options->pools.n) return;
    for (int j = 0; j < p->versions.n; j++)
        check_pools_of(p, p->versions.at[j].label, p->versions.at[j].program, &p->versions.at[j].plan);
    if (!p->versions.n) check_pools_of(p, NULL, p->program, &p->build->plan);
    diag_check(p->diag);
}

// ---------------------------------------------------------------- flash
typedef struct part {
    const char *name;
    int64_t bytes;
    bool code;
} part;
typedef VEC(part) parts;

static int largest_first(const void *a, const void *b) {
    const part *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

// Equal functions are symbols at one place.
static bool is_alias(const elf_file *f, int of) {
    const elf_symbol *x = &f->symbols.at[of];
    for (int j = 0; j < of; j++) {
        const elf_symbol *y = &f->symbols.at[j];
        bool same = y->section && y->function && y->value == x->value && y->size == x->size;
        if (same && strcmp(y->section, x->section) == 0) return true;
    }
    return false;
}

// Sections that are loaded, and constants; functions are listed by their symbols.
static int64_t find_parts(pipeline *p, bytes object, parts *all, int64_t *code) {
    const elf_file *f = elf_read(p->arena, p->diag, object, "the object");
    int64_t listed = 0, sum = 0;
    *code = 0;
    for (int j = 0; j < f->sections.n; j++) {
        const elf_section *x = &f->sections.at[j];
        if (!(x->flags & SHF_ALLOC) || x->type == SHT_NOTE || x->type == SHT_NOBITS) continue;
        sum += (int64_t)x->size;
        if (x->flags & SHF_EXECINSTR) *code += (int64_t)x->size;
    }
    for (int j = 0; j < f->symbols.n; j++) {
        const elf_symbol *x = &f->symbols.at[j];
        if (!x->section || !x->function || !x->size || is_alias(f, j)) continue;
        VEC_PUSH(p->arena, all, (part){x->name, (int64_t)x->size, true});
        listed += (int64_t)x->size;
    }
    if (*code > listed)
        VEC_PUSH(p->arena, all, (part){"constants and padding between functions", *code - listed, true});
    if (sum > *code) VEC_PUSH(p->arena, all, (part){"tables of the code generator", sum - *code, false});
    for (int j = 0; j < p->loops->data.n; j++) {
        const ldata *x = p->loops->data.at[j];
        if (x->variable) continue;
        VEC_PUSH(p->arena, all, (part){x->name, x->bytes, false});
        sum += x->bytes;
    }
    if (all->n) qsort(all->at, (size_t)all->n, sizeof *all->at, largest_first);
    return sum;
}

static const char *flash_table(arena *a, const parts *all) {
    text t = {.arena = a};
    int64_t rest = 0;
    text_add(&t, "         bytes");
    for (int j = 0; j < all->n; j++) {
        if (j >= PARTS_SHOWN) {
            rest += all->at[j].bytes;
            continue;
        }
        text_printf(&t, "\n  %12lld  %s  ", (long long)all->at[j].bytes,
                    all->at[j].code ? "code    " : "constant");
        text_add_short(&t, all->at[j].name);
    }
    if (rest) text_printf(&t, "\n  %12lld  %d more", (long long)rest, all->n - PARTS_SHOWN);
    return text_str(&t);
}

void check_flash(pipeline *p, bytes object) {
    int64_t most = options_max_flash(p->options), code;
    if (most < 0) return;
    if (!elf_is_object(object))
        diag_fatal_missing(p->diag, NULL, "--max-flash is not supported for %s: its objects are not ELF",
                           p->target->triple);
    parts all = {0};
    int64_t bytes = find_parts(p, object, &all, &code);
    if (bytes <= most) return;
    if (!p->options->level || strcmp(p->options->level, "z") != 0)
        diag_hint(p->diag, "-Oz makes code smaller");
    diag_table(p->diag, flash_table(p->arena, &all));
    diag_fatal(p->diag, NULL,
               "--max-flash=%s: the model needs %lld bytes, %lld of code and %lld of constants",
               p->options->max_flash, (long long)bytes, (long long)code, (long long)(bytes - code));
}
