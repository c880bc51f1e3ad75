// In: the state of a debugger. Out: text about nodes and values.
#include "compiler/cli/debug.h"
#include "compiler/report/attr_text.h"
#include "compiler/run/probe_call.h"
#include "compiler/values/slice.h"
#include <string.h>

// ---------------------------------------------------------------- looking up
static const import_value *constant_named(debugger *d, const char *name) {
    const value *v = map_get(&d->pipeline->module->names, name);
    if (!v || !v->constant) return NULL;
    import_value *own = ARENA_NEW(d->arena, import_value);
    *own = (import_value){.kind = TYPE_TENSOR, .name = name, .tensor = v->constant};
    return own;
}

static const import_value *find_known(debugger *d, const char *name) {
    const debug_value *v = debug_find(d, name);
    return v ? v->value : constant_named(d, name);
}

static void show_summary(debugger *d, const char *what, const char *name) {
    const import_value *v = find_known(d, name);
    printf("  %s%s: ", what, safe_text(d->arena, name));
    if (!v) {
        printf("not computed yet\n");
        return;
    }
    if (v->kind != TYPE_TENSOR) {
        printf("%s of %d items\n", type_kind_name(v->kind), v->n);
        return;
    }
    tensor t = tensor_of(d->arena, v->tensor);
    stats s = stats_none();
    stats_add(&s, &t);
    printf("%s, %s\n", tensor_text(d->arena, &t), stats_text(d->arena, &s));
}

void debug_show_summary(debugger *d, const char *name) { show_summary(d, "", name); }

// ---------------------------------------------------------------- nodes
static void add_names(text *t, const char *const *names, int n) {
    for (int i = 0; i < n; i++)
        text_printf(t, "%s%s", i ? ", " : "", names[i] ? safe_text(t->arena, names[i]) : "(none)");
}

const char *debug_node_text(debugger *d, const probed_node *n) {
    text t = {.arena = d->arena};
    text_printf(&t, "#%d ", n->index);
    text_add_node(&t, n->as.loc, true);
    text_add(&t, n->as.call ? ", a call: " : ": ");
    add_names(&t, n->in, n->as.nin);
    text_add(&t, " -> ");
    add_names(&t, n->out, n->as.nout);
    return text_str(&t);
}

void debug_show_place(debugger *d) {
    const probed_node *n = d->here;
    if (!n) {
        printf("the run has not started\n");
        return;
    }
    printf("%s", debug_node_text(d, n));
    if (d->runs[n->index] > 1) printf("  (run %d)", d->runs[n->index]);
    printf("\n");
    for (int i = 0; n->first && i < n->nstates; i++) debug_show_summary(d, n->states[i]);
}

static void show_values(debugger *d, const char *what, const char *const *names, int n) {
    for (int i = 0; i < n; i++) {
        if (!names[i]) continue;
        show_summary(d, what, names[i]);
    }
}

void debug_show_node(debugger *d, const probed_node *n) {
    printf("%s\n", debug_node_text(d, n));
    if (*n->as.domain) printf("  domain %s\n", safe_text(d->arena, n->as.domain));
    for (const probed_node *o = n->owner; o; o = o->owner) {
        text t = {.arena = d->arena};
        text_add_node(&t, o->as.loc, true);
        printf("  within %s%s\n", text_str(&t), o->as.call ? ", a call of a function" : "");
    }
    for (int i = 0; i < n->as.nattrs; i++)
        printf("  attribute %s = %s\n", safe_text(d->arena, n->as.attrs[i].name),
               attr_value_text(d->arena, &n->as.attrs[i]));
    show_values(d, "input ", n->in, n->as.nin);
    show_values(d, "output ", n->out, n->as.nout);
}

void debug_show_list(debugger *d, const probed_node *around, int most) {
    int middle = around ? around->index : 0, first = middle - most / 2;
    if (first < 0) first = 0;
    for (int j = first; j < first + most && j < d->probes->nodes.n; j++) {
        const probed_node *n = d->probes->nodes.at[j];
        bool stops = false;
        for (int i = 0; i < d->breakpoints.n; i++)
            stops |= d->breakpoints.at[i] && d->breakpoints.at[i]->at[j];
        printf("%s%s %*s%s\n", n == d->here && !d->ended ? "=>" : "  ", stops ? "*" : " ", 2 * n->depth, "",
               debug_node_text(d, n));
    }
}

// ---------------------------------------------------------------- values
const import_value *debug_known(debugger *d, const char *name) {
    const import_value *v = find_known(d, name);
    if (v) return v;
    const probed_node *n = map_get(&d->probes->by_name, name);
    if (n) {
        printf("'%s' is not computed yet: %s does that\n", name, debug_node_text(d, n));
        return NULL;
    }
    string_list names = {0};
    const map *known = &d->probes->by_name;
    for (int i = 0; i < known->n; i++) VEC_PUSH(d->arena, &names, known->slots[i].key);
    const char *near = nearest_word(d->arena, name, names.at, names.n);
    printf("there is no value '%s'%s\n", name,
           near ? arena_printf(d->arena, "; did you mean '%s'?", safe_text(d->arena, near)) : "");
    return NULL;
}

void debug_show_outputs(debugger *d) {
    const probed_node *n = d->previous;
    for (int i = 0; n && i < n->as.nout; i++)
        if (n->out[i]) debug_show_value(d, n->out[i], false);
    if (!n) printf("no node has run yet: name a value\n");
}

static void show_slice(debugger *d, const import_value *v, const char *said, bool all) {
    const char *why = "it is not a tensor";
    text t = {.arena = d->arena};
    tensor whole, part;
    if (v->kind == TYPE_TENSOR) whole = tensor_of(d->arena, v->tensor);
    if (v->kind != TYPE_TENSOR || !tensor_slice(d->arena, &whole, said, &part, &why)) {
        printf("%s[%s]: %s\n", safe_text(d->arena, v->name), said, why);
        return;
    }
    value_print(&t, value_of_tensor(d->arena, arena_printf(d->arena, "%s[%s]", v->name, said), &part), all);
    fputs(text_str(&t), stdout);
}

void debug_show_value(debugger *d, const char *said, bool all) {
    const char *bracket = strrchr(said, '[');
    size_t n = strlen(said);
    text t = {.arena = d->arena};
    if (!find_known(d, said) && bracket && bracket > said && said[n - 1] == ']') {
        const import_value *v = debug_known(d, arena_strndup(d->arena, said, (size_t)(bracket - said)));
        if (v) show_slice(d, v, arena_strndup(d->arena, bracket + 1, n - (size_t)(bracket - said) - 2), all);
        return;
    }
    const import_value *v = debug_known(d, said);
    if (!v) return;
    value_print(&t, v, all);
    fputs(text_str(&t), stdout);
}

static void show_all_stats(debugger *d) {
    for (int i = 0; i < d->values.n; i++) debug_show_summary(d, d->values.slots[i].key);
}

void debug_show_stats(debugger *d, const char *name) {
    if (!*name) {
        show_all_stats(d);
        return;
    }
    const import_value *v = debug_known(d, name);
    if (!v) return;
    debug_show_summary(d, name);
    if (v->kind != TYPE_TENSOR || v->tensor->elem == DT_STRING) return;
    stats s = stats_none();
    tensor t = tensor_of(d->arena, v->tensor);
    stats_add(&s, &t);
    if (!s.numbers || !s.count) return;
    printf("  std %s, %lld zeros\n", number_text(d->arena, stats_deviation(&s)), (long long)s.zeros);
    if (s.nans) printf("  first NaN at %s\n", position_text(d->arena, &t, s.nan_at));
    if (s.infs) printf("  first infinity at %s\n", position_text(d->arena, &t, s.inf_at));
}
