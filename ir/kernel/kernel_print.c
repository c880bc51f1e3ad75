// Prints kernels as their loops, with a line for each write and state (grammar: ir/kernel/kernel_text.h). In:
// a kernel. Out: text that kernel_parse.c reads back to the same text.
#include "ir/kernel/kernel_text.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const role_words[] = {[BUF_INPUT] = "input", [BUF_OUTPUT] = "output", [BUF_CONST] = "const",
                                  [BUF_TEMP] = "temp",   [BUF_HEAP] = "heap",     [BUF_LOCAL] = "local"};
const char *const axis_words[] = {[AXIS_PARALLEL] = "for", [AXIS_REDUCE] = "reduce", [AXIS_SCAN] = "scan"};
const char *const reduce_words[] = {[RED_SUM] = "+=",
                                    [RED_PROD] = "*=",
                                    [RED_MIN] = "min=",
                                    [RED_MAX] = "max=",
                                    [RED_NUMBER_MAX] = "number_max=",
                                    [RED_AND] = "&=",
                                    [RED_OR] = "|=",
                                    [RED_CUSTOM] = "="};
const char *const combine_words[] = {[COMBINE_SET] = "=",
                                     [COMBINE_ADD] = "+=",
                                     [COMBINE_MUL] = "*=",
                                     [COMBINE_MIN] = "min=",
                                     [COMBINE_MAX] = "max="};

const char *const space_words[] = {
    [SPACE_HOST] = "", [SPACE_DEVICE] = "on the device", [SPACE_CALLER] = "where the caller says"};

bool expr_keeps_type(expr_op op) {
    expr_class c = expr_op_class(op);
    return c != XC_LEAF && c != XC_TEST && c != XC_COMPARE && op != X_CAST && op != X_BITCAST;
}
bool cast_may_saturate(dtype to) { return dtype_is_float(to) && dtype_bits(to) == 8; }
dtype number_type(bool is_float) { return is_float ? DT_F32 : DT_I64; }

// ---------------------------------------------------------------- expressions
typedef struct printer {
    text *t;
    const kernel *k;
    named_dims *dims;
    int *axis, naxes; // by axis: 1 + its number in the text
    int *name;        // by expression: 1 + the number of its let; 0: printed in place
} printer;

// The type of e regardless of context; DT_NONE: it contains only constants.
static dtype own_type(const expr *e) {
    if (e->op == X_CONST) return DT_NONE;
    if (!expr_keeps_type(e->op)) return e->dtype;
    dtype t = DT_NONE;
    int first = e->op == X_SELECT, end = e->op == X_CHECK ? 1 : expr_arity(e->op);
    for (int j = first; j < end && t == DT_NONE; j++) t = own_type(e->arg[j]);
    return t;
}

static void print_expr(const printer *p, const expr *e, dtype want);

static void print_index(const printer *p, int n, expr *const *index) {
    text_add(p->t, "[");
    for (int j = 0; j < n; j++) {
        if (j) text_add(p->t, ", ");
        print_expr(p, index[j], DT_I64);
    }
    text_add(p->t, "]");
}

static void print_number(text *t, const expr *e) {
    bool plain = e->f < 1e9 && e->f > -1e9 && e->f == (double)(int64_t)e->f;
    if (!dtype_is_float(e->dtype)) text_printf(t, "%lld", (long long)e->i);
    else if (plain) text_printf(t, "%.1f", e->f);
    else print_double(t, e->f, 17);
}

static void print_const(text *t, const expr *e, dtype want) {
    bool expected = e->dtype == (want != DT_NONE ? want : number_type(dtype_is_float(e->dtype)));
    if (!expected) text_printf(t, "%s(", dtype_name(e->dtype));
    print_number(t, e);
    if (!expected) text_add(t, ")");
}

// Names end in their number.
static void print_axis_name(const printer *p, int a) {
    const char *name = p->k->axes.at[a].name;
    size_t n = strlen(name);
    while (n && name[n - 1] >= '0' && name[n - 1] <= '9') n--;
    bool state = !n || (n == 1 && name[0] == 's');
    text_printf(p->t, "%.*s%s%d", (int)n, name, state ? "_" : "", p->axis[a] - 1);
}

static void print_read(const printer *p, const expr *e) {
    print_name(p->t, e->buffer->name);
    print_index(p, e->buffer->rank, e->index);
    if (!e->guard) return;
    text_add(p->t, " if ");
    print_expr(p, e->guard, DT_BOOL);
    text_add(p->t, " else ");
    print_expr(p, e->fill, e->dtype);
}

static void print_dim_value(const printer *p, const expr *e, dtype want) {
    dim *d = p->dims ? named_dims_add(p->dims, e->dim) : e->dim;
    if (dim_is_const(d)) {
        print_const(p->t, &(expr){.op = X_CONST, .dtype = DT_I64, .i = dim_value(d)}, want);
        return;
    }
    text_add(p->t, "{");
    print_dim(p->t, p->dims, d);
    text_add(p->t, "}");
}

static void print_leaf(const printer *p, const expr *e, dtype want) {
    switch (e->op) {
    case X_CONST: print_const(p->t, e, want); return;
    case X_AXIS: print_axis_name(p, e->axis); return;
    case X_DIM: print_dim_value(p, e, want); return;
    case X_STATE: text_printf(p->t, "s%d", e->axis); return;
    case X_OTHER: text_printf(p->t, "other%d", e->axis); return;
    case X_READ: print_read(p, e); return;
    case X_COUNT:
#define LEAF(...)
#define OP(op, ...) case op:
#include "ir/kernel/expr_ops.def"
        return;
    }
}

static dtype operand_type(const expr *e, int j, dtype want) {
    if ((e->op == X_SELECT && j == 0) || (e->op == X_CHECK && j == 1)) return DT_BOOL;
    if (expr_keeps_type(e->op)) return want != DT_NONE ? want : own_type(e);
    if (expr_op_class(e->op) != XC_COMPARE) return DT_NONE;
    dtype t = own_type(e->arg[0]);
    return t != DT_NONE ? t : own_type(e->arg[1]);
}

static void print_expr(const printer *p, const expr *e, dtype want) {
    if (p->name[e->id]) {
        text_printf(p->t, "$%d", p->name[e->id] - 1);
        return;
    }
    int n = expr_arity(e->op);
    if (n == 0) {
        print_leaf(p, e, want);
        return;
    }
    const char *mid = expr_op_infix(e->op);
    if (!mid) text_add(p->t, e->op == X_CAST ? dtype_name(e->to) : expr_op_name(e->op));
    text_add(p->t, "(");
    for (int j = 0; j < n; j++) {
        if (j) text_printf(p->t, mid ? " %s " : ", ", mid);
        print_expr(p, e->arg[j], operand_type(e, j, want));
    }
    if (e->op == X_ROUND_TO) text_printf(p->t, ", %s", dtype_name(e->to));
    if (e->op == X_BITCAST) text_printf(p->t, ", %s", dtype_name(e->dtype));
    if ((e->op == X_ROUND_TO || e->op == X_CAST) && e->saturate && cast_may_saturate(e->to))
        text_add(p->t, ", saturate");
    if (e->op == X_CHECK) {
        const char *message = p->k->messages.at[e->axis]->text;
        text_add(p->t, ", ");
        text_add_quoted(p->t, message, strlen(message));
    }
    text_add(p->t, ")");
}

// ---------------------------------------------------------------- lets
enum { DEEPEST = 24, LARGE = 1000 }; // nesting; expressions of a stage

// Assigns lets to deeply nested expressions and, in large stages, to those with several users. Operands have
// smaller ids.
static int choose_lets(printer *p, const expr_list *all) {
    arena *scratch = arena_new();
    int nexprs = p->k->exprs.n, nlets = 0;
    int *size = ARENA_ARRAY(scratch, int, nexprs + 1), *uses = ARENA_ARRAY(scratch, int, nexprs + 1),
        *height = ARENA_ARRAY(scratch, int, nexprs + 1);
    expr *operand[MAX_RANK + 3];
    for (int i = 0; i < all->n; i++) {
        const expr *e = all->at[i];
        size[e->id] = 1;
        for (int j = expr_operands(e, operand) - 1; j >= 0; j--) {
            uses[operand[j]->id]++;
            size[e->id] += size[operand[j]->id];
            if (size[e->id] > LARGE) size[e->id] = LARGE + 1;
        }
        p->name[e->id] = 0;
    }
    int64_t total = 0;
    for (int i = 0; i < all->n; i++)
        if (!uses[all->at[i]->id]) total += size[all->at[i]->id];
    bool large = total > LARGE;
    for (int i = 0; i < all->n; i++) {
        const expr *e = all->at[i];
        for (int j = expr_operands(e, operand) - 1; j >= 0; j--)
            if (height[operand[j]->id] >= height[e->id]) height[e->id] = height[operand[j]->id] + 1;
        bool shared = large && uses[e->id] > 1 && size[e->id] > 1;
        if (!shared && height[e->id] <= DEEPEST) continue;
        height[e->id] = 0;
        p->name[e->id] = ++nlets;
    }
    arena_destroy(scratch);
    return nlets;
}

static void print_lets(const printer *p, const expr_list *all, int indent) {
    for (int i = 0; i < all->n; i++) {
        expr *e = all->at[i];
        int name = p->name[e->id];
        if (!name) continue;
        text_printf(p->t, "%*slet $%d = ", indent, "", name - 1);
        p->name[e->id] = 0;
        print_expr(p, e, DT_NONE);
        p->name[e->id] = name;
        text_add(p->t, "\n");
    }
}

// ---------------------------------------------------------------- stages
static int print_axis(printer *p, int a, const char *word, int indent) {
    if (!p->axis[a]) p->axis[a] = ++p->naxes;
    text_printf(p->t, "%*s%s ", indent, "", word);
    print_axis_name(p, a);
    text_add(p->t, " < ");
    print_dim(p->t, p->dims, p->k->axes.at[a].extent);
    text_add(p->t, "\n");
    return indent + 2;
}

static void print_states(const printer *p, const stage *s, int indent) {
    for (int j = 0; j < s->states.n; j++) {
        const state *x = &s->states.at[j];
        text_printf(p->t, "%*ss%d", indent, "", j);
        if (x->dtype != number_type(true)) text_printf(p->t, ": %s", dtype_name(x->dtype));
        text_printf(p->t, " %s ", reduce_words[x->op]);
        print_expr(p, x->step, x->dtype);
        if (!state_begins_neutral(x)) text_add(p->t, " from "), print_expr(p, x->init, x->dtype);
        if (x->merge) text_add(p->t, " merge "), print_expr(p, x->merge, x->dtype);
        text_add(p->t, "\n");
    }
}

static void print_writes(const printer *p, const stage *s, write_when when, int indent) {
    for (int j = 0; j < s->writes.n; j++) {
        const write *w = &s->writes.at[j];
        if (w->when != when) continue;
        text_printf(p->t, "%*s", indent, "");
        print_name(p->t, w->to->name);
        print_index(p, w->to->rank, w->index);
        text_printf(p->t, " %s ", combine_words[w->combine]);
        print_expr(p, w->value, dtype_compute(w->to->dtype));
        if (w->guard) text_add(p->t, " where "), print_expr(p, w->guard, DT_BOOL);
        text_add(p->t, "\n");
    }
}

static void print_stage(printer *p, const stage *s, int indent) {
    arena *scratch = arena_new();
    expr_list all = stage_nodes(scratch, s, PART_ALL);
    const axis *axes = p->k->axes.at;
    int nlets = choose_lets(p, &all), j = 0;
    for (; j < s->axes.n && axes[s->axes.at[j]].kind == AXIS_PARALLEL; j++)
        indent = print_axis(p, s->axes.at[j], axis_words[AXIS_PARALLEL], indent);
    int inner = indent;
    for (; j < s->axes.n; j++)
        inner = print_axis(p, s->axes.at[j], axis_words[axes[s->axes.at[j]].kind], inner);
    if (nlets) print_lets(p, &all, inner);
    print_writes(p, s, WRITE_BEFORE, inner);
    print_states(p, s, inner);
    print_writes(p, s, WRITE_AFTER, inner);
    print_writes(p, s, WRITE_END, indent);
    arena_destroy(scratch);
}

// Whether its lines would be read as part of the previous stage.
static bool needs_then(const kernel *k, int j) {
    const stage *before = j ? k->stages.at[j - 1] : NULL;
    if (!before || k->stages.at[j]->axes.n) return false;
    return !before->axes.n || k->axes.at[before->axes.at[0]].kind != AXIS_PARALLEL;
}

// ---------------------------------------------------------------- kernels
void print_dim(text *t, named_dims *dims, dim *d) {
    text_add(t, dim_text(t->arena, dims ? named_dims_add(dims, d) : d));
}

static void print_layout(text *t, const layout *l) {
    text_add(t, " layout(");
    for (int j = 0; j < l->n; j++)
        text_printf(t, "%s%d%s", j ? " " : "", l->order[j].axis,
                    l->order[j].tile ? arena_printf(t->arena, ":%lld", (long long)l->order[j].tile) : "");
    for (int a = 0; a < MAX_RANK; a++)
        if (l->pad_lo[a] || l->pad_hi[a])
            text_printf(t, " halo %d:%lld,%lld", a, (long long)l->pad_lo[a], (long long)l->pad_hi[a]);
    if (l->fill != 0 || signbit(l->fill)) text_add(t, " fill "), print_double(t, l->fill, 17);
    if (l->gap) text_printf(t, " gap %d:%lld", l->gap_entry, (long long)l->gap);
    for (int a = 0; a < MAX_RANK; a++)
        if (l->room[a]) text_printf(t, " room %d:%lld", a, (long long)l->room[a]);
    if (l->last) text_printf(t, " last %lld", (long long)l->last);
    text_add(t, ")");
}

void print_buffer(text *t, named_dims *dims, const buffer *b) {
    text_printf(t, "%s ", role_words[b->role]);
    print_name(t, b->name);
    text_printf(t, ": %s[", dtype_name(b->dtype));
    for (int j = 0; j < b->rank; j++) {
        if (j) text_add(t, ", ");
        print_dim(t, dims, b->dims[j]);
    }
    text_add(t, "]");
    if (b->layout) print_layout(t, b->layout);
    if (b->space != SPACE_HOST) text_printf(t, " %s", space_words[b->space]);
}

void print_kernel(text *t, named_dims *dims, const kernel *k, int indent) {
    arena *scratch = arena_new();
    printer p = {.t = t, .k = k, .dims = dims};
    p.axis = ARENA_ARRAY(scratch, int, k->axes.n + 1);
    p.name = ARENA_ARRAY(scratch, int, k->exprs.n + 1);
    print_name(t, k->name);
    if (k->algorithm) text_printf(t, " as %s", k->algorithm);
    text_add(t, "\n");
    for (int j = 0; j < k->nouter; j++) indent = print_axis(&p, j, "outer", indent);
    for (int j = 0; j < k->locals.n; j++) {
        text_printf(t, "%*s", indent, "");
        print_buffer(t, dims, k->locals.at[j]);
        text_add(t, "\n");
    }
    for (int j = 0; j < k->stages.n; j++) {
        if (needs_then(k, j)) text_printf(t, "%*sthen\n", indent, "");
        print_stage(&p, k->stages.at[j], indent);
    }
    arena_destroy(scratch);
}

const char *kernel_print(arena *a, const kernel *k) {
    text t = {.arena = a};
    print_kernel(&t, NULL, k, 0);
    return text_str(&t);
}

// A buffer that is renamed while its kernel is printed: the printer takes names from buffers only.
typedef struct renamed {
    buffer *b;
    const char *name;
} renamed;

const char *kernel_outline(arena *a, const kernel *k) {
    buffer **all;
    int n = kernel_buffers(k, &all), count = 0;
    renamed *was = ARENA_ARRAY(a, renamed, n + k->locals.n + 1);
    text t = {.arena = a};
    for (int j = 0; j < n + k->locals.n; j++) {
        buffer *b = j < n ? all[j] : k->locals.at[j - n];
        was[count++] = (renamed){b, b->name};
        b->name = arena_printf(a, "b%d", j);
        text_printf(&t, "%d %s %s", b->role == BUF_CONST, b->name, dtype_name(b->dtype));
        for (int i = 0; i < b->rank; i++) text_printf(&t, " %s", dim_text(a, b->dims[i]));
        if (b->layout) print_layout(&t, b->layout);
        text_add(&t, "\n");
    }
    text_add(&t, strchr(kernel_print(a, k), '\n'));
    while (count--) was[count].b->name = was[count].name;
    return text_str(&t);
}
