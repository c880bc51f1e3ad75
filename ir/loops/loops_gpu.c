// Names and checks of GPU instructions. In: fields and operands of an instruction. Out: its name, or an
// error.
#include "ir/loops/loops_gpu.h"
#include <string.h>

static const struct {
    const char *name, *fields, *operands;
} ops[] = {
#define X(e, name, fields, operands) {name, fields, operands},
    GPU_OPS(X)
#undef X
};

// Pairs of types that can be multiplied, as names spell them.
static const struct {
    dtype a, b;
    const char *name;
} pairs[] = {
    {DT_F16, DT_F16, "f16"}, {DT_BF16, DT_BF16, "bf16"}, {DT_F32, DT_F32, "tf32"}, {DT_I8, DT_I8, "s8"},
    {DT_U8, DT_I8, "u8s8"},  {DT_I8, DT_U8, "s8u8"},     {DT_U8, DT_U8, "u8"},
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

const char *gpu_types_name(const gpu_ins *g) {
    for (int i = 0; i < PAIRS; i++)
        if (pairs[i].a == g->a && pairs[i].b == g->b) return pairs[i].name;
    return NULL;
}

char gpu_order_letter(gpu_order o) { return o == ORDER_K ? 'k' : o == ORDER_M ? 'm' : 'c'; }

const char *gpu_ins_name(arena *a, const gpu_ins *g) {
    text t = {.arena = a};
    text_add(&t, ops[g->op].name);
    for (const char *f = ops[g->op].fields; *f; f++) {
        if (*f == 't') text_add(&t, g->transposed ? "_trans" : "");
        if (*f == 'c') text_printf(&t, "_%d", g->count);
        if (*f == 'k') text_printf(&t, "_m%dn%dk%d", g->m, g->n, g->k);
        if (*f == 'n') text_printf(&t, "_n%d", g->n);
        if (*f == 'e') text_printf(&t, "_%s", gpu_types_name(g));
        if (*f == 'o') text_printf(&t, "_%c%c", gpu_order_letter(g->order_a), gpu_order_letter(g->order_b));
    }
    return text_str(&t);
}

// Elements of 32 bytes along K.
static int gpu_depth(dtype a) { return 256 / dtype_bits(a); }
int gpu_sums(const gpu_ins *g) { return g->m * g->n / (g->op == GPU_MMA ? 32 : 128); }
int gpu_words_a(const gpu_ins *g) { return g->m * g->k * dtype_bits(g->a) / 1024; }
int gpu_words_b(const gpu_ins *g) { return g->n * g->k * dtype_bits(g->b) / 1024; }

// ---------------------------------------------------------------- checks

// Fragments of mma.sync are 16 x 8 by 32 bytes; sm_75 has smaller ones.
static bool is_mma(const gpu_ins *g) {
    bool small = (g->a == DT_F16 && g->m == 16 && g->k == 8) ||
                 (g->a == DT_I8 && g->b == DT_I8 && g->m == 8 && g->k == 16);
    return g->n == 8 && (small || (g->m == 16 && g->k == gpu_depth(g->a)));
}

static bool is_wgmma(const gpu_ins *g) {
    bool columns = g->n >= 16 && g->n <= 256 && g->n % 16 == 0; // pairs of fragments where there is no wgmma
    bool along_k = g->order_a != ORDER_M && g->order_b != ORDER_M;
    return g->m == 64 && columns && g->k == gpu_depth(g->a) && (along_k || dtype_bits(g->a) == 16);
}

static const char *fields_error(const gpu_ins *g) {
    const char *fields = ops[g->op].fields;
    if (g->op == GPU_COPY && g->count != 4 && g->count != 8 && g->count != 16) return "not 4, 8 or 16 bytes";
    if (g->op != GPU_COPY && (g->count < 0 || g->count > 1)) return "neither 0 nor 1 groups may be left";
    if (strchr(fields, 'e') && !gpu_types_name(g)) return "no such types are multiplied";
    if (strchr(fields, 'k') && !is_mma(g)) return "no shape of mma.sync";
    if (strchr(fields, 'n') && !is_wgmma(g)) return "no shape or order of wgmma";
    return NULL;
}

static const char *operand_error(const ins *x, char kind) {
    const ins *base = ins_base(x);
    bool local = base->op == L_LOCAL;
    lkind want = kind == 'i' ? LK_I32 : LK_PTR;
    if (x->type.kind != want || x->type.lanes != 1) return "an operand is neither a pointer nor an i32";
    if (kind == 'r' && (!local || base->shared)) return "registers are not an array of the thread";
    if (kind == 's' && (!local || !base->shared)) return "an operand does not lie in shared memory";
    if (kind == 'g' && local) return "an operand does not lie in the device's memory";
    return NULL;
}

static const char *registers_error(const ins *x) {
    const gpu_ins *g = x->gpu;
    const int words[] = {gpu_sums(g), gpu_words_a(g), gpu_words_b(g)};
    lkind sums = dtype_is_float(g->a) ? LK_F32 : LK_I32;
    for (int i = 0; i < (g->op == GPU_MMA ? 3 : 1); i++) {
        const ins *base = ins_base(x->args[i]);
        if (base->elem != (i ? LK_I32 : sums)) return "registers of another type";
        if (base->i < words[i]) return "too few registers";
    }
    return NULL;
}

const char *gpu_ins_error(const ins *x) {
    if (!x->gpu || x->gpu->op >= GPU_OP_COUNT) return "no such instruction of GPUs";
    const char *operands = ops[x->gpu->op].operands, *error = fields_error(x->gpu);
    if (!error && x->nargs != (int)strlen(operands)) error = "wrong number of operands";
    for (int i = 0; !error && operands[i]; i++) error = operand_error(x->args[i], operands[i]);
    bool sums = strchr(ops[x->gpu->op].fields, 'e');
    return error || !sums ? error : registers_error(x);
}

void lb_gpu(lbuild *b, gpu_ins g, ins *const *args) {
    ins *x = lb_op(b, L_GPU, lt(LK_VOID, 1), (int)strlen(ops[g.op].operands), args);
    gpu_ins *own = ARENA_NEW(b->arena, gpu_ins);
    *own = g;
    x->gpu = own;
}
