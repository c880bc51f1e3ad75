// Maxima of bytes. In: kernels that quantise the maximum of dequantised bytes. Out: where that is the greatest byte,
// the maximum of the bytes themselves:
//
//   s max= in[y, x] ? float(int32(q[y, x]) - z) * d : -inf      s max= in[y, x] ? q[y, x] : 0
//   out = byte(rint(s / d) + z)                                  out = s
//
// This holds if dequantisation never decreases and quantisation is its inverse, which is tried for all 256 bytes. And the greater
// or lesser of several values that are quantised, each of them a function of a byte:
//
//   out = byte(rint(max(f(q), g(r)) / d) + z)      out = max(byte(rint(f(q) / d) + z), byte(rint(g(r) / d) + z))
//
// This holds if quantisation never decreases, which is tried for all values of f and g. Where it undoes f, its result is q itself;
// otherwise, without floating point, it is computed in integers or becomes a table. Elements outside of an image are bytes as well.
#include "ir/kernel/edit.h"
#include "ir/kernel/eval.h"
#include "ir/target.h"
#include "passes/match/form.h"
#include "passes/passes.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 256, MOST_NODES = 256 };

// ---------------------------------------------------------------- values
// x where `leaf` has the value v; false: x depends on anything else.
static bool value_of(const expr *x, const expr *leaf, cell v, cell *out) {
    cell arg[3] = {{0}};
    *out = v;
    if (x == leaf) return true;
    if (x->op == X_CONST) {
        if (dtype_is_float(x->dtype)) out->f = x->f;
        else out->i = x->i;
        return true;
    }
    if (!expr_arity(x->op) || x->op == X_CHECK) return false;
    for (int j = 0; j < expr_arity(x->op); j++)
        if (!value_of(x->arg[j], leaf, v, &arg[j])) return false;
    *out = eval_scalar(x, arg);
    return true;
}

static bool is_minus_infinity(const expr *x) { return x->op == X_CONST && x->f == -INFINITY; }
// The only byte that x reads; NULL: none or several.
static expr *byte_read(arena *a, expr *x) {
    expr *found = NULL;
    expr_list all = reads_only(expr_nodes(a, x));
    for (int j = 0; j < all.n; j++) {
        if (found && all.at[j] != found) return NULL;
        found = all.at[j];
    }
    return found && dtype_is_byte(found->dtype) ? found : NULL;
}

// Operations and operands of x, where those with several users count once for each.
static int tree_size(const expr *x, int most) {
    int n = 1;
    for (int j = 0; j < expr_arity(x->op) && n < most; j++) n += tree_size(x->arg[j], most - n);
    return n;
}

// Notes in *found the byte, computed or read, through which x depends on anything that is not constant. False: there are several.
static bool find_byte(expr *x, expr **found) {
    if (x->op == X_CONST) return true;
    if (dtype_is_byte(x->dtype)) {
        if (*found && *found != x) return false;
        *found = x;
        return true;
    }
    for (int j = 0; j < expr_arity(x->op); j++)
        if (!find_byte(x->arg[j], found)) return false;
    return expr_arity(x->op) > 0;
}

// The only byte on which x depends: one that is read, or what a quantisation before x gives; NULL: none.
static expr *byte_of(arena *a, expr *x) {
    expr *found = byte_read(a, x);
    if (found || tree_size(x, MOST_NODES) >= MOST_NODES) return found;
    return find_byte(x, &found) ? found : NULL;
}

static const expr *state_of(arena *a, expr *x) {
    expr_list all = expr_nodes(a, x);
    for (int j = 0; j < all.n; j++)
        if (all.at[j]->op == X_STATE) return all.at[j];
    return NULL;
}

static int64_t least_of(const expr *byte) { return byte->dtype == DT_I8 ? -BYTES / 2 : 0; }

// Whether the written value of f(byte) is the byte, f never decreases, and no element at all gives the least byte.
static bool is_inverse(expr *f, const expr *byte, expr *written, const expr *s) {
    int64_t least = least_of(byte);
    double last = -INFINITY;
    cell out;
    if (!value_of(written, s, (cell){.f = -INFINITY}, &out) || out.i != least) return false;
    for (int64_t j = least; j < least + BYTES; j++) {
        cell v;
        if (!value_of(f, byte, (cell){.i = j}, &v) || !(v.f >= last)) return false;
        if (!value_of(written, s, v, &out) || out.i != j) return false;
        last = v.f;
    }
    return true;
}

// The byte inside of an image, and another one outside of it.
static expr *padded(kernel *k, expr *inside, expr *byte, expr *outside) {
    if (byte->op == X_READ && byte->guard == inside)
        return x_read_guarded(k, byte->buffer, byte->index, inside, outside);
    if (byte->op == X_SELECT && byte->arg[0] == inside) byte = byte->arg[1];
    return x_select(k, inside, byte, outside);
}

// ---------------------------------------------------------------- rewriting
static void rewrite_stage(kernel *k, stage *s) {
    if (s->states.n != 1 || s->writes.n != 1 || !stage_writes_at_end(s)) return;
    state *st = &s->states.at[0];
    write *w = &s->writes.at[0];
    if (st->op != RED_MAX || st->dtype != DT_F32 || !is_minus_infinity(st->init) ||
        !dtype_is_byte(w->value->dtype))
        return;
    bool guarded = st->step->op == X_SELECT && is_minus_infinity(st->step->arg[2]);
    expr *f = guarded ? st->step->arg[1] : st->step, *byte = byte_of(k->arena, f);
    const expr *whole = state_of(k->arena, w->value);
    if (!byte || !whole || byte->dtype != w->value->dtype || !is_inverse(f, byte, w->value, whole)) return;
    expr *least = x_int(k, byte->dtype, least_of(byte));
    st->step = guarded ? padded(k, st->step->arg[0], byte, least) : byte;
    st->init = least, st->dtype = byte->dtype;
    w->value = x_state(k, 0, byte->dtype);
}

// ---------------------------------------------------------------- of several values
enum { MOST_OPERANDS = 8 };

typedef struct selection {
    kernel *k;
    arena *scratch;
    bool tables;             // functions of a byte are integers or lookups
    expr *written, *top;     // a byte, and the greatest or least value that it quantises
    int n;                   // operands
    double *values;          // of all operands, BYTES of each
    expr *of[MOST_OPERANDS]; // functions of a byte
} selection;

static bool is_selection(const expr *x) { return (x->op == X_MAX || x->op == X_MIN) && x->dtype == DT_F32; }

// Whether x is a function of one byte, whose values are then noted.
static bool note_function(selection *c, expr *x) {
    expr *byte = byte_of(c->scratch, x);
    if (!byte || c->n == MOST_OPERANDS) return false;
    for (int j = 0; j < BYTES; j++) {
        cell v;
        if (!value_of(x, byte, (cell){.i = least_of(byte) + j}, &v) || isnan(v.f)) return false;
        c->values[c->n * BYTES + j] = v.f;
    }
    c->of[c->n++] = x;
    return true;
}

static bool note_operands(selection *c, expr *x) {
    if (note_function(c, x)) return true;
    return is_selection(x) && note_operands(c, x->arg[0]) && note_operands(c, x->arg[1]);
}

static bool cancels(const selection *c, int operand) {
    const expr *byte = byte_of(c->scratch, c->of[operand]);
    cell out;
    for (int j = 0; j < BYTES; j++)
        if (!value_of(c->written, c->top, (cell){.f = c->values[operand * BYTES + j]}, &out) ||
            out.i != least_of(byte) + j)
            return false;
    return byte->dtype == c->written->dtype;
}

static int compare_values(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static bool never_decreases(const selection *c) {
    int64_t last = INT64_MIN;
    double *sorted = ARENA_ARRAY(c->scratch, double, c->n *BYTES);
    memcpy(sorted, c->values, (size_t)(c->n * BYTES) * sizeof *sorted);
    qsort(sorted, (size_t)(c->n * BYTES), sizeof *sorted, compare_values);
    for (int j = 0; j < c->n * BYTES; j++) {
        cell out;
        if (!value_of(c->written, c->top, (cell){.f = sorted[j]}, &out) || out.i < last) return false;
        last = out.i;
    }
    return true;
}

typedef struct replacement {
    const expr *from;
    expr *by;
} replacement;

static expr *replaced(void *user, expr *e) {
    const replacement *r = user;
    return e == r->from ? r->by : NULL;
}

static expr *select_bytes(const selection *c, expr *x) {
    for (int j = 0; j < c->n; j++)
        if (c->of[j] == x) {
            replacement r = {c->top, x};
            return cancels(c, j) ? byte_of(c->scratch, x) : expr_rewrite(c->k, c->written, replaced, &r);
        }
    return x_bin(c->k, x->op, select_bytes(c, x->arg[0]), select_bytes(c, x->arg[1]));
}

static expr *rewrite_selection(void *user, expr *e) {
    selection *c = user;
    if (!dtype_is_byte(e->dtype) || !expr_arity(e->op) || tree_size(e, MOST_NODES) >= MOST_NODES) return NULL;
    expr_list all = expr_nodes(c->scratch, e);
    int at = all.n - 1;
    while (at >= 0 && !(is_selection(all.at[at]) && !byte_of(c->scratch, all.at[at]))) at--;
    if (at < 0) return NULL;
    c->written = e, c->top = all.at[at], c->n = 0;
    c->values = ARENA_ARRAY(c->scratch, double, MOST_OPERANDS *BYTES);
    if (!note_operands(c, c->top) || !never_decreases(c)) return NULL;
    for (int j = 0; j < c->n && !c->tables; j++)
        if (!cancels(c, j)) return NULL;
    return select_bytes(c, c->top);
}

// ---------------------------------------------------------------- padding
//   byte(rint((in ? f(q) : c) / d) + z)      becomes      in ? byte(rint(f(q) / d) + z) : byte(rint(c / d) + z)
static expr *rewrite_padding(void *user, expr *e) {
    selection *c = user;
    cell fill, cut;
    if (!dtype_is_byte(e->dtype) || !expr_arity(e->op) || tree_size(e, MOST_NODES) >= MOST_NODES) return NULL;
    expr_list all = expr_nodes(c->scratch, e);
    int at = all.n - 1;
    while (at >= 0 && !(all.at[at]->op == X_SELECT && all.at[at]->dtype == DT_F32)) at--;
    if (at < 0 || all.at[at]->arg[2]->op != X_CONST) return NULL;
    expr *top = all.at[at], *inside = top->arg[0];
    c->written = e, c->top = top, c->n = 0;
    c->values = ARENA_ARRAY(c->scratch, double, BYTES);
    cut.f = top->arg[2]->f;
    if (!note_function(c, top->arg[1]) || !value_of(e, top, cut, &fill)) return NULL;
    expr *byte = byte_of(c->scratch, top->arg[1]), *outside = x_int(c->k, e->dtype, fill.i);
    if (!cancels(c, 0)) {
        expr *value = expr_rewrite(c->k, e, replaced, &(replacement){top, top->arg[1]});
        return c->tables ? x_select(c->k, inside, value, outside) : NULL;
    }
    return padded(c->k, inside, byte, outside);
}

static void rewrite_selections(kernel *k, bool tables) {
    selection c = {.k = k, .scratch = arena_new(), .tables = tables};
    write_list writes = kernel_write_list(k);
    for (int j = 0; j < writes.n; j++) {
        expr *value = expr_rewrite(k, writes.at[j]->value, rewrite_padding, &c);
        writes.at[j]->value = expr_rewrite(k, value, rewrite_selection, &c);
    }
    arena_destroy(c.scratch);
}

void pass_byte_maxima(pass_context *c) {
    program *p = c->program;
    for (int j = 0; j < p->kernels.n; j++) {
        kernel *k = p->kernels.at[j];
        for (int s = 0; s < k->stages.n; s++) rewrite_stage(k, k->stages.at[s]);
        rewrite_selections(k, !c->target->f32);
    }
}
