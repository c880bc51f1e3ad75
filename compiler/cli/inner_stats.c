// --stats. In: values of a run. Out: a table or JSON, and where the first NaN and the first infinity come from.
#include "compiler/base/outfile.h"
#include "compiler/cli/inner_impl.h"
#include "compiler/values/values.h"
#include <math.h>
#include <string.h>

enum { COLUMNS = 12, NAME_MOST = 36 };

// ---------------------------------------------------------------- origins
static const char *input_text(inner *x, const probed_node *n, int i) {
    arena *a = x->session->arena;
    const inner_value *v = map_get(&x->by_name, n->in[i]);
    const constant *c = n->as.in[i]->constant;
    const char *name = safe_text(a, n->in[i]);
    if (v) return arena_printf(a, "input '%s': %s, %s", name, v->type, stats_text(a, &v->last));
    if (!c) return arena_printf(a, "input '%s'", name);
    tensor t = tensor_of(a, c);
    stats s = stats_none();
    if (t.dtype != DT_STRING) stats_add(&s, &t);
    return arena_printf(a, "constant '%s': %s, %s", name, tensor_text(a, &t), stats_text(a, &s));
}

static void note_origin(inner *x, origin *o, const inner_value *v, const tensor *t, int64_t count,
                        int64_t first) {
    if (o->value || !count) return;
    arena *a = x->session->arena;
    *o = (origin){.value = v, .count = count, .of = t->count, .run = v->runs - 1};
    o->at = position_text(a, t, first);
    for (int i = 0; v->node && i < v->node->as.nin; i++)
        if (v->node->in[i]) VEC_PUSH(a, &o->inputs, input_text(x, v->node, i));
}

void inner_note(inner *x, inner_value *v, const tensor *t) {
    v->last = stats_none();
    if (!t) {
        v->last.numbers = v->all.numbers = false;
        return;
    }
    stats_add(&v->last, t);
    stats_add(&v->all, t);
    note_origin(x, &x->nan, v, t, v->last.nans, v->last.nan_at);
    note_origin(x, &x->inf, v, t, v->last.infs, v->last.inf_at);
}

static void print_origin(inner *x, const origin *o, const char *what) {
    arena *a = x->session->arena;
    text t = {.arena = a};
    const inner_value *v = o->value;
    if (!v) return;
    text_printf(&t, "first %s: ", what);
    if (v->node) {
        text_add_node(&t, v->node->as.loc, true);
        text_printf(&t, ", output '%s'", safe_text(a, v->name));
    } else {
        text_printf(&t, "input '%s' of the model", safe_text(a, v->name));
    }
    if (v->runs > 1) text_printf(&t, ", iteration %lld", (long long)o->run);
    text_printf(&t, ": %lld of %lld elements", (long long)o->count, (long long)o->of);
    if (*o->at) text_printf(&t, ", the first at %s", o->at);
    printf("%s\n", text_str(&t));
    for (int i = 0; i < o->inputs.n; i++) printf("  %s\n", o->inputs.at[i]);
}

// ---------------------------------------------------------------- the table
static const char *shortened(arena *a, const char *s) {
    s = safe_text(a, s);
    size_t n = strlen(s), half = (NAME_MOST - 3) / 2;
    if (n <= NAME_MOST) return s;
    return arena_printf(a, "%.*s...%s", (int)half, s, s + n - half);
}

static const char *shape_text(arena *a, const inner_value *v) {
    text t = {.arena = a};
    for (int j = 0; j < v->rank; j++) text_printf(&t, "%s%lld", j ? "x" : "", (long long)v->dims[j]);
    if (!v->rank) text_add(&t, v->dtype == DT_NONE ? "-" : "scalar");
    return text_str(&t);
}

typedef struct table_row {
    const char *cell[COLUMNS];
    const char *mark; // after the columns; NULL: none
} table_row;

static table_row row_of(arena *a, const inner_value *v) {
    const stats *s = &v->all;
    bool n = s->numbers;
    const probed_node *node = v->node;
    table_row r = {{node ? shortened(a, node->as.loc->node) : "-", node ? node->as.op : "(input)",
                    shortened(a, v->name), v->dtype == DT_NONE ? v->type : dtype_name(v->dtype),
                    shape_text(a, v)}};
    r.cell[5] = number_text(a, n ? s->min : NAN);
    r.cell[6] = number_text(a, n ? s->max : NAN);
    r.cell[7] = number_text(a, n && s->finite ? s->mean : NAN);
    r.cell[8] = number_text(a, n ? stats_deviation(s) : NAN);
    r.cell[9] = number_text(a, n ? (double)s->nans : NAN);
    r.cell[10] = number_text(a, n ? (double)s->infs : NAN);
    r.cell[11] = number_text(a, n ? (double)s->zeros : NAN);
    if (v->runs > 1) r.cell[4] = arena_printf(a, "%s (%lld times)", r.cell[4], (long long)v->runs);
    return r;
}

static table_row marked_row(const inner *x, const inner_value *v) {
    table_row r = row_of(x->session->arena, v);
    bool nan = x->nan.value == v, inf = x->inf.value == v;
    r.mark = nan && inf ? "first NaN, first infinity" : nan ? "first NaN" : inf ? "first infinity" : NULL;
    return r;
}

static void print_row(const table_row *r, const int *width) {
    enum { FIRST_NUMBER = 5 };
    for (int j = 0; j < COLUMNS; j++)
        printf("%s%*s", j ? "  " : "", j < FIRST_NUMBER ? -width[j] : width[j], r->cell[j]);
    printf("%s%s\n", r->mark ? "  <- " : "", r->mark ? r->mark : "");
}

static void print_table(inner *x) {
    arena *a = x->session->arena;
    VEC(table_row) rows = {0};
    int width[COLUMNS] = {0};
    VEC_PUSH(a, &rows,
             (table_row){{"node", "op", "value", "dtype", "shape", "min", "max", "mean", "std", "NaN", "Inf",
                          "zeros"}});
    for (int i = 0; i < x->values.n; i++)
        if (x->values.at[i]->shown) VEC_PUSH(a, &rows, marked_row(x, x->values.at[i]));
    for (int i = 0; i < rows.n; i++)
        for (int j = 0; j < COLUMNS; j++)
            if ((int)strlen(rows.at[i].cell[j]) > width[j]) width[j] = (int)strlen(rows.at[i].cell[j]);
    for (int i = 0; i < rows.n; i++) print_row(&rows.at[i], width);
    print_origin(x, &x->nan, "NaN");
    print_origin(x, &x->inf, "infinity");
}

// ---------------------------------------------------------------- JSON
static void origin_json(json *j, const char *key, const origin *o) {
    if (!o->value) {
        json_text(j, key, NULL);
        return;
    }
    json_open(j, key, '{');
    json_text(j, "name", o->value->name);
    json_text(j, "node", o->value->node ? o->value->node->as.loc->node : NULL);
    json_text(j, "op", o->value->node ? o->value->node->as.op : "input");
    json_int(j, "iteration", o->run);
    json_int(j, "elements", o->count);
    json_text(j, "at", o->at);
    json_open(j, "inputs", '[');
    for (int i = 0; i < o->inputs.n; i++) json_text(j, NULL, o->inputs.at[i]);
    json_close(j, ']');
    json_close(j, '}');
}

static void value_json(json *j, const inner_value *v) {
    json_open(j, NULL, '{');
    json_text(j, "name", v->name);
    json_text(j, "node", v->node ? v->node->as.loc->node : NULL);
    json_text(j, "op", v->node ? v->node->as.op : "input");
    if (v->node) json_int(j, "version", v->node->as.loc->version);
    if (v->node) json_int(j, "output", v->output);
    json_int(j, "runs", v->runs);
    json_text(j, "type", v->type);
    json_text(j, "dtype", v->dtype == DT_NONE ? NULL : dtype_name(v->dtype));
    json_open(j, "shape", '[');
    for (int i = 0; i < v->rank; i++) json_int(j, NULL, v->dims[i]);
    json_close(j, ']');
    stats_json(j, &v->all);
    json_close(j, '}');
}

static void write_json(inner *x) {
    json j = json_new_indented(x->session->arena);
    json_open(&j, NULL, '{');
    json_text(&j, "model", x->session->args.at[0]);
    json_open(&j, "values", '[');
    for (int i = 0; i < x->values.n; i++)
        if (x->values.at[i]->shown) value_json(&j, x->values.at[i]);
    json_close(&j, ']');
    origin_json(&j, "first_nan", &x->nan);
    origin_json(&j, "first_inf", &x->inf);
    json_close(&j, '}');
    text_add(&j.out, "\n");
    outfile_write_whole(x->session->arena, &x->session->diag, x->options->stats,
                        (bytes){json_done(&j), j.out.n});
}

void inner_show_stats(inner *x) {
    if (*x->options->stats) write_json(x);
    else print_table(x);
}
