// Prints functions of loops, for people and golden tests. In: a function. Out: one instruction per line,
// blocks in braces, floats with all digits.
#include "ir/loops/loops_gpu.h"
#include "ir/loops/loops_tiles.h"
#include <math.h>

static const char *const role_names[] = {"serial", "parallel", "unroll",   "grid_x",  "grid_y",
                                         "grid_z", "thread_x", "thread_y", "thread_z"};

static void add_type(text *t, ltype y) {
    text_add(t, lkind_name(y.kind));
    if (y.lanes > 1) text_printf(t, "x%d", y.lanes);
}

// 17 digits give every double back.
static void add_float(text *t, double v) {
    if (isnan(v)) text_add(t, "nan");
    else text_printf(t, "%.17g", v);
}

static void add_const(text *t, const ins *x) {
    if (lkind_is_float(x->type.kind)) add_float(t, x->f);
    else text_printf(t, "%lld", (long long)x->i);
}

// Constants are printed in place.
static void add_operand(text *t, const lfunc *f, const ins *x) {
    if (x->op == L_CONST) add_const(t, x);
    else if (x->op == L_PARAM) text_printf(t, "%%%s", safe_text(t->arena, f->params.at[x->i].name));
    else if (x->op == L_FOR && x->name) text_printf(t, "%%%s", safe_text(t->arena, x->name));
    else text_printf(t, "%%%d", x->id);
    if (x->op == L_FOR && x->name) text_printf(t, ".%d", x->id);
}

static void add_operands(text *t, const lfunc *f, const ins *x) {
    for (int i = 0; i < x->nargs; i++) {
        text_add(t, i ? ", " : " ");
        add_operand(t, f, x->args[i]);
    }
}

static void add_details(text *t, const ins *x) {
    if (x->op == L_SHUFFLE)
        for (int i = 0; i < x->type.lanes; i++)
            text_printf(t, "%s%d%s", i ? " " : " [", x->mask[i], i + 1 == x->type.lanes ? "]" : "");
    if (x->op == L_EXTRACT || x->op == L_INSERT || x->op == L_SHFL_XOR)
        text_printf(t, " lane %lld", (long long)x->i);
    if (x->op == L_OFFSET) text_printf(t, " * %lld", (long long)x->i);
    if (lop_class(x->op) == LC_TILE && x->op != L_TILE_CONFIG && x->op != L_TILE_RELEASE)
        text_printf(t, " tile %lld", (long long)x->i & 15);
    if (lop_class(x->op) == LC_TILE && x->i > 15)
        text_printf(t, " += %d * %d", tile_of_dot(x, 1), tile_of_dot(x, 2));
    if (x->op == L_FIELD || x->op == L_SETFIELD)
        text_printf(t, " .%s at %lld", x->name ? x->name : "", (long long)x->i);
    if (x->op == L_LOCAL)
        text_printf(t, " %s[%lld]%s", lkind_name(x->elem), (long long)x->i, x->shared ? " shared" : "");
    if (x->op == L_SYMBOL || x->op == L_CALL || x->op == L_VAR)
        text_printf(t, " @%s", x->name ? x->name : "");
    if (x->op == L_FOR) text_printf(t, " %s", role_names[x->role]);
    if (x->align) text_printf(t, " align %d", x->align);
    if (x->op == L_LOAD && x->i) text_printf(t, " bytes %lld", (long long)x->i);
}

static void add_block(text *t, const lfunc *f, const lblock *b, int depth);

static void indent(text *t, int depth) { text_printf(t, "%*s", 2 * depth, ""); }

static void add_comment(text *t, const char *s, int depth) {
    for (const char *line = s; *line;) {
        size_t n = 0;
        while (line[n] && line[n] != '\n') n++;
        indent(t, depth);
        text_add(t, "# ");
        text_add(t, safe_text(t->arena, arena_strndup(t->arena, line, n)));
        text_add(t, "\n");
        line += n + (line[n] == '\n');
    }
}

static void add_ins(text *t, const lfunc *f, const ins *x, int depth) {
    if (x->op == L_CONST || x->op == L_PARAM) return;
    if (x->op == L_COMMENT) return add_comment(t, x->name ? x->name : "", depth);
    indent(t, depth);
    if (x->type.kind != LK_VOID) {
        add_operand(t, f, x);
        text_add(t, ": ");
        add_type(t, x->type);
        text_add(t, " = ");
    }
    text_add(t, lop_name(x->op));
    if (x->op == L_GPU) text_printf(t, ".%s", gpu_ins_name(t->arena, x->gpu));
    add_operands(t, f, x);
    add_details(t, x);
    for (int i = 0; i < 2; i++) {
        if (!x->body[i]) continue;
        text_add(t, i ? " else {\n" : " {\n");
        add_block(t, f, x->body[i], depth + 1);
        indent(t, depth);
        text_add(t, "}");
    }
    text_add(t, "\n");
}

static void add_block(text *t, const lfunc *f, const lblock *b, int depth) {
    for (const ins *x = b->first; x; x = x->next) add_ins(t, f, x, depth);
}

static void add_params(text *t, const lfunc *f) {
    for (int i = 0; i < f->params.n; i++) {
        const lparam *p = &f->params.at[i];
        text_printf(t, "%s%%%s: %s", i ? ", " : "", safe_text(t->arena, p->name),
                    p->is_const ? "const " : "");
        add_type(t, p->type);
        if (p->type.kind == LK_PTR && p->elem != LK_VOID) text_printf(t, " %s", lkind_name(p->elem));
    }
}

const char *lfunc_print(arena *a, const lfunc *f) {
    text t = {.arena = a};
    if (f->comment) add_comment(&t, f->comment, 0);
    text_printf(&t, "%sfunc @%s(", f->exported ? "export " : "", f->name);
    add_params(&t, f);
    text_add(&t, ")");
    if (f->result.kind != LK_VOID) {
        text_add(&t, " -> ");
        add_type(&t, f->result);
    }
    if (f->kernel) text_add(&t, " kernel");
    if (f->strict_fp) text_add(&t, " strict");
    if (!f->body) return text_add(&t, "\n"), text_str(&t);
    text_add(&t, " {\n");
    add_block(&t, f, f->body, 1);
    text_add(&t, "}\n");
    return text_str(&t);
}
