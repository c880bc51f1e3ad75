// Kernels and programs as text: the kernel as its loops, one line for each write and state.
#include "ir/kernel/program.h"
#include <stdio.h>
#include <string.h>

static void print_expr(text *t, const kernel *k, const expr *e, int depth);

static void print_index(text *t, const kernel *k, int n, expr *const *index, int depth) {
    text_add(t, "[");
    for (int j = 0; j < n; j++) {
        if (j) text_add(t, ", ");
        print_expr(t, k, index[j], depth);
    }
    text_add(t, "]");
}

static void print_leaf(text *t, const kernel *k, const expr *e, int depth) {
    switch (e->op) {
    case X_CONST:
        if (dtype_is_float(e->dtype))
            text_printf(t, e->f == (double)(int64_t)e->f && e->f < 1e9 && e->f > -1e9 ? "%.1f" : "%.17g",
                        e->f);
        else text_printf(t, "%lld", (long long)e->i);
        return;
    case X_AXIS: text_printf(t, "%s%d", k->axes.at[e->axis].name, e->axis); return;
    case X_DIM: text_printf(t, "(%s)", dim_text(t->arena, e->dim)); return;
    case X_STATE: text_printf(t, "s%d", e->axis); return;
    case X_OTHER: text_printf(t, "o%d", e->axis); return;
    case X_READ:
        text_add(t, e->buffer->name);
        print_index(t, k, e->buffer->rank, e->index, depth + 1);
        if (!e->guard) return;
        text_add(t, " if ");
        print_expr(t, k, e->guard, depth + 1);
        text_add(t, " else ");
        print_expr(t, k, e->fill, depth + 1);
        return;
    case X_COUNT:
#define LEAF(...)
#define OP(op, ...) case op:
#include "ir/kernel/expr_ops.def"
        return;
    }
}

// Deep expressions are cut: this is for reading.
static void print_expr(text *t, const kernel *k, const expr *e, int depth) {
    if (depth > 24 || t->n > 20000) {
        text_printf(t, "e%d", e->id);
        return;
    }
    int n = expr_arity(e->op);
    if (n == 0) {
        print_leaf(t, k, e, depth);
        return;
    }
    const char *infix = expr_op_infix(e->op);
    if (!infix) text_add(t, e->op == X_CAST ? dtype_name(e->to) : expr_op_name(e->op));
    text_add(t, "(");
    for (int j = 0; j < n; j++) {
        if (j && infix) text_printf(t, " %s ", infix);
        else if (j) text_add(t, ", ");
        print_expr(t, k, e->arg[j], depth + 1);
    }
    if (e->op == X_CHECK) text_printf(t, ", \"%s\"", k->messages.at[e->axis]);
    text_add(t, ")");
}

static int print_axis(text *t, const kernel *k, int a, int indent) {
    static const char *const word[] = {
        [AXIS_PARALLEL] = "for", [AXIS_REDUCE] = "reduce", [AXIS_SCAN] = "scan"};
    const axis *x = &k->axes.at[a];
    text_printf(t, "%*s%s %s%d < %s\n", indent, "", word[x->kind], x->name, a, dim_text(t->arena, x->extent));
    return indent + 2;
}

static void print_states(text *t, const kernel *k, const stage *s, int indent) {
    static const char *const op[] = {
        [RED_SUM] = "+=", [RED_PROD] = "*=", [RED_MIN] = "min=", [RED_MAX] = "max=",
        [RED_AND] = "&=", [RED_OR] = "|=",   [RED_CUSTOM] = "="};
    for (int j = 0; j < s->states.n; j++) {
        text_printf(t, "%*ss%d %s ", indent, "", j, op[s->states.at[j].op]);
        print_expr(t, k, s->states.at[j].step, 0);
        if (s->states.at[j].op == RED_CUSTOM) {
            text_add(t, " from ");
            print_expr(t, k, s->states.at[j].init, 0);
        }
        text_add(t, "\n");
    }
}

static void print_writes(text *t, const kernel *k, const stage *s, write_when when, int indent) {
    static const char *const op[] = {[COMBINE_SET] = "=",
                                     [COMBINE_ADD] = "+=",
                                     [COMBINE_MUL] = "*=",
                                     [COMBINE_MIN] = "min=",
                                     [COMBINE_MAX] = "max="};
    for (int j = 0; j < s->writes.n; j++) {
        const write *w = &s->writes.at[j];
        if (w->when != when) continue;
        text_printf(t, "%*s%s", indent, "", w->to->name);
        print_index(t, k, w->to->rank, w->index, 0);
        text_printf(t, " %s ", op[w->combine]);
        print_expr(t, k, w->value, 0);
        if (w->guard) {
            text_add(t, " where ");
            print_expr(t, k, w->guard, 0);
        }
        text_add(t, "\n");
    }
}

static void print_stage(text *t, const kernel *k, const stage *s, int indent) {
    int j = 0;
    for (; j < s->axes.n && k->axes.at[s->axes.at[j]].kind == AXIS_PARALLEL; j++)
        indent = print_axis(t, k, s->axes.at[j], indent);
    int inner = indent;
    for (; j < s->axes.n; j++) inner = print_axis(t, k, s->axes.at[j], inner);
    print_writes(t, k, s, WRITE_BEFORE, inner);
    print_states(t, k, s, inner);
    print_writes(t, k, s, WRITE_AFTER, inner);
    print_writes(t, k, s, WRITE_END, indent);
}

const char *kernel_print(arena *a, const kernel *k) {
    text t = {.arena = a};
    int indent = 0;
    text_printf(&t, "%s\n", k->name);
    for (int j = 0; j < k->nouter; j++) indent = print_axis(&t, k, j, indent);
    for (int j = 0; j < k->stages.n; j++) print_stage(&t, k, k->stages.at[j], indent);
    return text_str(&t);
}

// ---------------------------------------------------------------- programs
static void print_layout(text *t, const layout *l) {
    text_add(t, " layout(");
    for (int j = 0; j < l->n; j++)
        text_printf(t, "%s%d%s", j ? " " : "", l->order[j].axis,
                    l->order[j].tile ? arena_printf(t->arena, ":%lld", (long long)l->order[j].tile) : "");
    for (int a = 0; a < MAX_RANK; a++)
        if (l->pad_lo[a] || l->pad_hi[a])
            text_printf(t, " halo %d:%lld,%lld", a, (long long)l->pad_lo[a], (long long)l->pad_hi[a]);
    if (l->gap) text_printf(t, " gap %d:%lld", l->gap_entry, (long long)l->gap);
    text_add(t, ")");
}

static void print_buffer(text *t, const buffer *b) {
    static const char *const role[] = {[BUF_INPUT] = "input", [BUF_OUTPUT] = "output", [BUF_CONST] = "const",
                                       [BUF_TEMP] = "temp",   [BUF_HEAP] = "heap",     [BUF_LOCAL] = "local"};
    text_printf(t, "%s %s: %s[", role[b->role], b->name, dtype_name(b->dtype));
    for (int j = 0; j < b->rank; j++) text_printf(t, "%s%s", j ? ", " : "", dim_text(t->arena, b->dims[j]));
    text_add(t, "]");
    if (b->layout) print_layout(t, b->layout);
    if (b->space == SPACE_DEVICE && b->role != BUF_CONST) text_add(t, " on the device");
    if (b->space == SPACE_CALLER) text_add(t, " where the caller says");
    if (b->view_of) text_printf(t, " view of %s", b->view_of->name);
    if (b->offset) text_printf(t, " at %s", dim_text(t->arena, b->offset));
    text_add(t, "\n");
}

// Buffers have numbers for names while the kernel is printed: the printer takes names from them alone.
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

static void print_region(text *t, const region *r, int indent);

static void print_step(text *t, const step *s, int indent) {
    text_printf(t, "%*s", indent, "");
    switch (s->kind) {
    case STEP_KERNEL: {
        const char *k = kernel_print(t->arena, s->kernel);
        for (const char *line = k; *line;) {
            const char *end = strchr(line, '\n');
            if (line != k) text_printf(t, "%*s", indent + 2, "");
            else text_add(t, "kernel ");
            text_addn(t, line, (size_t)(end - line) + 1);
            line = end + 1;
        }
        return;
    }
    case STEP_CHECK: text_printf(t, "check %s: %s\n", dim_text(t->arena, s->dim), s->message); return;
    case STEP_SET_DIM:
        if (s->dim) text_printf(t, "%s := %s\n", s->target->name, dim_text(t->arena, s->dim));
        else text_printf(t, "%s := %s[%lld]\n", s->target->name, s->buffer->name, (long long)s->index);
        return;
    case STEP_ALLOC: text_printf(t, "alloc %s\n", s->buffer->name); return;
    case STEP_FREE: text_printf(t, "free %s\n", s->buffer->name); return;
    case STEP_COPY: text_printf(t, "copy %s = %s\n", s->buffer->name, s->from->name); return;
    case STEP_MOVE: text_printf(t, "move %s = %s\n", s->buffer->name, s->from->name); return;
    case STEP_IF: text_printf(t, "if %s\n", s->buffer ? s->buffer->name : dim_text(t->arena, s->dim)); break;
    case STEP_LOOP:
        text_printf(t, "loop %s < %s%s%s\n", s->target->name, s->dim ? dim_text(t->arena, s->dim) : "inf",
                    s->buffer ? " while " : "", s->buffer ? s->buffer->name : "");
        break;
    case STEP_LIB:
        text_printf(t, "call %s(", s->lib);
        for (int j = 0; j < s->nargs; j++)
            text_printf(t, "%s%s",
                        !j                 ? ""
                        : j == s->nwritten ? "; "
                                           : ", ",
                        s->args[j] ? s->args[j]->name : "-");
        for (int j = 0; j < s->nnumbers; j++)
            text_printf(t, "%s%s", j ? ", " : "; ", dim_text(t->arena, s->numbers[j]));
        text_add(t, ")\n");
        return;
    }
    for (int b = 0; b < 2; b++) {
        if (!s->body[b]) continue;
        if (b) text_printf(t, "%*selse\n", indent, "");
        print_region(t, s->body[b], indent + 2);
    }
}

static void print_region(text *t, const region *r, int indent) {
    for (int j = 0; j < r->steps.n; j++) print_step(t, r->steps.at[j], indent);
}

const char *program_print(arena *a, const program *p) {
    text t = {.arena = a};
    text_printf(&t, "program %s\n", p->name ? p->name : "");
    for (int j = 0; j < p->buffers.n; j++) print_buffer(&t, p->buffers.at[j]);
    if (p->workspace) text_printf(&t, "workspace %s\n", dim_text(a, p->workspace));
    print_region(&t, p->main, 0);
    return text_str(&t);
}
