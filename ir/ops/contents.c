// Data propagation: element-wise computation of symbolic values for the infer functions of operators.
#include "ir/ops/contents.h"
#include "ir/ops/runtime_args.h"
#include <math.h>
#include <string.h>

// The number of elements of output 0; -1 if it is not constant or exceeds CONTENTS_MAX.
static int output_count(const node *n) {
    int64_t sizes[MAX_RANK], count;
    const value *v = node_out(n, 0);
    return v && infer_static(&v->type, CONTENTS_MAX, sizes, &count) ? (int)count : -1;
}

// The symbolic values of all inputs, each with one or `count` elements; false if one is unknown or has
// another number of elements.
static bool operand_contents(const node *n, int count, dim ***operand, int *size) {
    for (int i = 0; i < n->nin; i++) {
        operand[i] = NULL;
        size[i] = 0;
        if (!n->in[i]) continue;
        operand[i] = infer_contents(n, i, &size[i]);
        if (!operand[i] || (size[i] != 1 && size[i] != count)) return false;
    }
    return true;
}

void contents_map(node *n, contents_fold *fold) {
    int count = output_count(n);
    if (count < 0) return;
    arena *a = infer_arena(n);
    dim ***operand = ARENA_ARRAY(a, dim **, n->nin + 1);
    int *size = ARENA_ARRAY(a, int, n->nin + 1);
    if (!operand_contents(n, count, operand, size)) return;
    dim **result = ARENA_ARRAY(a, dim *, count + 1), **one = ARENA_ARRAY(a, dim *, n->nin + 1);
    for (int e = 0; e < count; e++) {
        for (int i = 0; i < n->nin; i++) one[i] = operand[i] ? operand[i][size[i] == 1 ? 0 : e] : NULL;
        result[e] = fold(n, one);
        if (!result[e]) return;
    }
    infer_set_contents(n, 0, result, count);
}

// Operand i of def as fractions numerator[] / denominator; false unless its floats are exactly representable
// so.
static bool as_fractions(const node *def, int i, int count, dim **numerator, int64_t *denominator) {
    int size;
    *denominator = 1;
    dim **whole = infer_contents(def, i, &size);
    if (whole && (size == 1 || size == count)) {
        for (int e = 0; e < count; e++) numerator[e] = whole[size == 1 ? 0 : e];
        return true;
    }
    const constant *c = infer_constant(def, i);
    if (!c || !dtype_is_float(c->elem) || (c->count != 1 && c->count != count)) return false;
    enum { PLACES = 1 << 10 };
    *denominator = PLACES;
    for (int e = 0; e < count; e++) {
        double f = constant_float(c, c->count == 1 ? 0 : e) * PLACES;
        if (f != trunc(f) || fabs(f) > 0x1p30) return false;
        numerator[e] = infer_k(def, (int64_t)f);
    }
    return true;
}

void contents_of_quotient(node *n, dim *(*round)(dim *a, dim *b)) {
    const node *def = n->in[0]->def;
    int count = output_count(n);
    if (!def || !def->op || count < 0 || def->nin != 2) return;
    bool divide = strcmp(def->op->name, "Div") == 0;
    if ((!divide && strcmp(def->op->name, "Mul") != 0) || def->op->domain[0]) return;
    const type *t = infer_in(def, 0);
    if (t->elem != DT_F32 && t->elem != DT_F64) return;
    arena *arena = infer_arena(n);
    dim **a = ARENA_ARRAY(arena, dim *, count + 1), **b = ARENA_ARRAY(arena, dim *, count + 1);
    dim **result = ARENA_ARRAY(arena, dim *, count + 1);
    int64_t under_a, under_b;
    if (!as_fractions(def, 0, count, a, &under_a) || !as_fractions(def, 1, count, b, &under_b)) return;
    for (int e = 0; e < count; e++) {
        // (a / under_a) / (b / under_b), or their product
        dim *over = divide ? dim_mulk(a[e], under_b) : dim_mul(a[e], b[e]);
        dim *under = divide ? dim_mulk(b[e], under_a) : infer_k(n, under_a * under_b);
        if (!dim_nonzero(under)) return;
        result[e] = round(over, under);
    }
    infer_set_contents(n, 0, result, count);
}
