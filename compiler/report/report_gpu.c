// GPU code in reports. In: launches and resource usage reported by ptxas. Out: lines of text, members of
// JSON.
#include "codegen/gpu/gpu.h"
#include "compiler/report/report_impl.h"

static const kernel_code *code_of(const report_part *part, const kernel *k) {
    return part->gpu ? part->gpu->kernels[k->id] : NULL;
}

static const char *arch_name(arena *a, int sm) {
    return arena_printf(a, "sm_%d%s", gpu_arch_number(sm), gpu_arch_letter(sm));
}

static void add_use(text *t, int sm, const gpu_use *u) {
    text_printf(t, "          %s: %d registers, %lld bytes shared", arch_name(t->arena, sm), u->registers,
                (long long)u->shared);
    if (u->stack) text_printf(t, ", %lld bytes of stack", (long long)u->stack);
    if (u->spilled) text_printf(t, ", %lld bytes spilled", (long long)u->spilled);
    text_add(t, "\n");
}

void report_gpu_text(text *t, const report_part *part, const kernel *k) {
    const kernel_code *c = code_of(part, k);
    if (!c) return;
    text_printf(t, "          %s blocks of %s threads", dim_text(t->arena, c->grid[0]),
                dim_text(t->arena, c->block[0]));
    if (c->scratch) text_printf(t, ", scratch %s bytes", dim_text(t->arena, c->scratch));
    text_add(t, "\n");
    int f = gpu_function_number(part->gpu, c->f);
    for (int i = 0; i < part->gpu->uses->n; i++)
        add_use(t, part->gpu->uses->at[i].sm, &part->gpu->uses->at[i].of[f]);
}

static void json_use(json *j, int sm, const gpu_use *u) {
    json_open(j, NULL, '{');
    json_text(j, "arch", arch_name(j->out.arena, sm));
    json_int(j, "registers", u->registers);
    json_int(j, "shared_bytes", u->shared);
    json_int(j, "stack_bytes", u->stack);
    json_int(j, "spilled_bytes", u->spilled);
    json_close(j, '}');
}

void report_dim(json *j, const char *key, const dim *d) {
    if (dim_is_const(d)) json_int(j, key, dim_value(d));
    else json_text(j, key, dim_text(j->out.arena, d));
}

void report_gpu_json(json *j, const report_part *part, const kernel *k) {
    const kernel_code *c = code_of(part, k);
    if (!c) return;
    json_open(j, "gpu", '{');
    json_text(j, "function", c->f->name);
    report_dim(j, "blocks", c->grid[0]);
    report_dim(j, "threads", c->block[0]);
    if (c->scratch) report_dim(j, "scratch_bytes", c->scratch);
    int f = gpu_function_number(part->gpu, c->f);
    json_open(j, "code", '[');
    for (int i = 0; i < part->gpu->uses->n; i++)
        json_use(j, part->gpu->uses->at[i].sm, &part->gpu->uses->at[i].of[f]);
    json_close(j, ']');
    json_close(j, '}');
}
