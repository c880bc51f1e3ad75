// Nodes as older versions of their operators express them. In: a node in the newest meaning and an opset. Out: a
// node with attributes, inputs and types of the version that the opset selects, or the reason why there is none.
//
// The operators' undo functions (op_upgrade) rewrite forms, the newest first. Then the tables of the standard
// decide: attributes that the version lacks must have the newest default, as older versions have that meaning.
#include "ir/ops/downgrade.h"
#include <limits.h>
#include <string.h>

const schema_version *newest_version(const op_def *op) {
    const schema_op *s = schema_find(op->domain, op->name);
    int i = s ? s->nversions - 1 : -1;
    while (i > 0 && s->versions[i].deprecated) i--;
    return i < 0 ? NULL : &s->versions[i];
}

int newest_opset_with(const op_def *op) {
    const schema_op *s = schema_find(op->domain, op->name);
    const schema_version *last = s ? &s->versions[s->nversions - 1] : NULL;
    return last && last->deprecated ? last->since - 1 : INT_MAX;
}

// ---------------------------------------------------------------- helpers of undo functions
const constant *downgrade_constant(const node *as, int i) {
    const value *v = node_in(as, i);
    if (!v || v->constant) return v ? v->constant : NULL;
    const attr *a = v->def && strcmp(v->def->op->name, "Constant") == 0 ? node_attr(v->def, "value") : NULL;
    return a && a->kind == ATTR_TENSOR ? a->tensor : NULL;
}

void downgrade_set_input(node *as, int i, value *v) {
    if (i >= as->nin) return;
    as->in[i] = v;
    while (as->nin && !as->in[as->nin - 1]) as->nin--;
}

bool downgrade_has_rank(const node *as, int i) {
    const value *v = node_in(as, i);
    return v && v->type.kind == TYPE_TENSOR && v->type.rank >= 0;
}

bool downgrade_input_to_ints(node *as, int i, const char *attribute) {
    const constant *c = downgrade_constant(as, i);
    if (!node_in(as, i)) return true;
    if (!c) return false;
    int64_t *v = ARENA_ARRAY(infer_arena(as), int64_t, c->count + 1);
    for (int64_t k = 0; k < c->count; k++) v[k] = constant_int(c, k);
    node_set_attr(as, (attr){.name = attribute, .kind = ATTR_INTS, .n = (int)c->count, .ints = v});
    downgrade_set_input(as, i, NULL);
    return true;
}

bool downgrade_input_to_float(node *as, int i, const char *attribute) {
    const constant *c = downgrade_constant(as, i);
    if (!node_in(as, i)) return true;
    if (!c || c->count != 1) return false;
    double v = constant_float(c, 0);
    if ((double)(float)v != v && v == v) return false;
    node_set_attr(as, (attr){.name = attribute, .kind = ATTR_FLOAT, .f = (float)v});
    downgrade_set_input(as, i, NULL);
    return true;
}

bool undo_nothing(node *as) {
    (void)as;
    return true;
}

bool undo_axes(node *as) {
    const constant *c = downgrade_constant(as, 1);
    bool all = !node_in(as, 1) || (c && !c->count);
    if (all && node_int(as, "noop_with_empty_axes", 0)) return false;
    if (all) downgrade_set_input(as, 1, NULL);
    node_remove_attr(as, "noop_with_empty_axes");
    return downgrade_input_to_ints(as, 1, "axes");
}

bool undo_broadcast(node *as) {
    for (int i = 0; i < as->nin; i++)
        if (!downgrade_has_rank(as, i) || !type_equal(&as->in[0]->type, &as->in[i]->type)) return false;
    return true;
}

// ---------------------------------------------------------------- the tables of the standard
static const schema_attr *schema_attr_of(const schema_version *v, const char *name) {
    for (int i = 0; i < v->nattrs; i++)
        if (strcmp(v->attrs[i].name, name) == 0) return &v->attrs[i];
    return NULL;
}

static bool same_value(const attr *a, const attr *b) {
    if (a->kind != b->kind || a->n != b->n) return false;
    size_t n = (size_t)a->n;
    if (a->kind == ATTR_INT) return a->i == b->i;
    if (a->kind == ATTR_FLOAT) return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    if (a->kind == ATTR_STRING) return a->size == b->size && memcmp(a->s, b->s, a->size) == 0;
    if (a->kind == ATTR_INTS) return !n || memcmp(a->ints, b->ints, n * sizeof *a->ints) == 0;
    if (a->kind == ATTR_FLOATS) return !n || memcmp(a->floats, b->floats, n * sizeof *a->floats) == 0;
    return false;
}

// Leaves out the compiler's own attributes. Sparse tensors are dense in memory.
static void standard_attributes(node *as, const schema_version *newest) {
    for (int i = as->nattrs - 1; i >= 0; i--) {
        const schema_attr *own = schema_attr_of(newest, as->attrs[i].name);
        if (!own) node_remove_attr(as, as->attrs[i].name);
        else if (own->kind == ATTR_SPARSE_TENSOR) as->attrs[i].kind = ATTR_SPARSE_TENSOR;
    }
}

// A node with the defaults of version v only.
static node default_node(const node *as, const schema_version *v) {
    node defaults = *as;
    defaults.nattrs = 0;
    defaults.attrs = NULL;
    node_fill_defaults(&defaults, v);
    return defaults;
}

// The import added them to nodes of other versions.
static void drop_defaults(node *as, const schema_version *v) {
    node defaults = default_node(as, v);
    for (int i = as->nattrs - 1; i >= 0; i--) {
        const attr *usual = node_attr(&defaults, as->attrs[i].name);
        if (usual && same_value(&as->attrs[i], usual)) node_remove_attr(as, usual->name);
    }
}

static bool fit_attributes(node *as, const schema_version *v, const char **why) {
    arena *a = infer_arena(as);
    const schema_version *newest = newest_version(as->op);
    node defaults = default_node(as, newest);
    for (int i = as->nattrs - 1; i >= 0; i--) {
        attr given = as->attrs[i];
        const schema_attr *own = schema_attr_of(v, given.name);
        const attr *usual = node_attr(&defaults, given.name);
        if (own && own->kind == (int)given.kind) continue;
        *why = arena_printf(a, "version %d has no such attribute '%s'", v->since, given.name);
        if (own || !usual || !same_value(&given, usual)) return false;
        node_remove_attr(as, given.name);
    }
    for (int i = 0; i < v->nattrs; i++) {
        const schema_attr *own = &v->attrs[i], *new = schema_attr_of(newest, own->name);
        if (node_attr(as, own->name)) continue;
        bool differs = own->def && new && !new->def;
        *why = arena_printf(a, "version %d needs attribute '%s'", v->since, own->name);
        if (own->required || differs) return false;
    }
    return true;
}

static bool fit_inputs(const node *as, const schema_version *v, const char **why) {
    arena *a = infer_arena(as);
    int nout = as->nout;
    while (nout && !as->out[nout - 1]) nout--;
    *why = arena_printf(a, "version %d has other inputs", v->since);
    if (as->nin < v->min_in || as->nin > v->max_in) return false;
    for (int i = 0; i < as->nin && i < v->nin; i++)
        if (!as->in[i] && v->in[i].option == 's') return false;
    *why = arena_printf(a, "version %d has other outputs", v->since);
    return nout >= v->min_out && nout <= v->max_out;
}

static bool fit_type(const node *as, const schema_version *v, const schema_param *p, const value *of,
                     const char **why) {
    if (!of || of->type.kind == TYPE_NONE) return true;
    const type *item = of->type.kind == TYPE_SEQUENCE ? of->type.item : &of->type;
    bool tensor = item && item->kind == TYPE_TENSOR;
    uint64_t own = !tensor             ? SCHEMA_OTHER
                   : item == &of->type ? SCHEMA_TENSOR(item->elem)
                                       : SCHEMA_SEQ(item->elem);
    if (tensor && item->elem == DT_NONE) return true;
    uint64_t types = p->type_var < 0 ? p->fixed_types : v->type_vars[p->type_var].types;
    *why = arena_printf(infer_arena(as), "in version %d, '%s' cannot be %s", v->since, p->name,
                        type_text(infer_arena(as), &of->type));
    return !types || (types & own);
}

static bool fit_types(const node *as, const schema_version *v, const char **why) {
    for (int i = 0; v->nin && i < as->nin; i++)
        if (!fit_type(as, v, &v->in[i < v->nin ? i : v->nin - 1], as->in[i], why)) return false;
    for (int i = 0; v->nout && i < as->nout; i++)
        if (!fit_type(as, v, &v->out[i < v->nout ? i : v->nout - 1], as->out[i], why)) return false;
    return true;
}

// Axes count from the end since opset 11 only.
static bool fit_axes(node *as, const char **why) {
    static const char *const names[] = {"axis", "axes"};
    bool inserts = strcmp(as->op->name, "Unsqueeze") == 0 || strcmp(as->op->name, "OneHot") == 0;
    const value *of = inserts ? node_out(as, 0) : node_in(as, 0);
    int rank = of && of->type.kind == TYPE_TENSOR ? of->type.rank : RANK_UNKNOWN;
    *why = "before opset 11, axes do not count from the end";
    for (int i = 0; i < 2; i++) {
        const attr *old = node_attr(as, names[i]);
        if (!old || (old->kind != ATTR_INT && old->kind != ATTR_INTS)) continue;
        attr a = *old;
        a.ints = ARENA_ARRAY(infer_arena(as), int64_t, old->n + 1);
        if (old->kind == ATTR_INT) a.i = old->i < 0 ? old->i + rank : old->i;
        bool known = old->kind != ATTR_INT || a.i >= 0;
        for (int k = 0; old->kind == ATTR_INTS && k < old->n; k++) {
            a.ints[k] = old->ints[k] < 0 ? old->ints[k] + rank : old->ints[k];
            known = known && a.ints[k] >= 0;
        }
        if (!known || (rank < 0 && !same_value(old, &a))) return false;
        node_set_attr(as, a);
    }
    return true;
}

// ---------------------------------------------------------------- nodes
static node detached(const node *n) {
    arena *a = infer_arena(n);
    node as = *n;
    as.in = ARENA_ARRAY(a, value *, n->nin + 1);
    as.attrs = ARENA_ARRAY(a, attr, n->nattrs + 1);
    if (n->nin) memcpy(as.in, n->in, (size_t)n->nin * sizeof *n->in);
    if (n->nattrs) memcpy(as.attrs, n->attrs, (size_t)n->nattrs * sizeof *n->attrs);
    while (as.nin && !as.in[as.nin - 1]) as.nin--;
    return as;
}

static bool undo_upgrades(node *as, int since, const char **why) {
    const op_upgrade *steps = as->op->upgrades;
    int i = 0;
    while (i < (int)(sizeof as->op->upgrades / sizeof *steps) && steps[i].since) i++;
    while (--i >= 0 && steps[i].since > since) {
        *why =
            arena_printf(infer_arena(as), "before version %d, the operator has another form", steps[i].since);
        if (!steps[i].undo || !steps[i].undo(as)) return false;
    }
    return true;
}

bool node_downgrade(const node *n, int opset, node *as, const char **why) {
    const schema_op *s = schema_find(n->op->domain, n->op->name);
    const schema_version *v = s ? schema_for_opset(s, opset) : NULL, *newest = newest_version(n->op);
    *as = detached(n);
    *why =
        s ? arena_printf(infer_arena(n), "the operator exists since opset %d", s->versions[0].since) : NULL;
    if (!v) return !s;
    *why = arena_printf(infer_arena(n), "the operator is deprecated since opset %d", v->since);
    if (v->deprecated) return false;
    standard_attributes(as, newest);
    *why = arena_printf(infer_arena(n), "version %d has no words for its attributes", v->since);
    if (n->op->expressible && !n->op->expressible(as, v->since)) return false;
    bool old_axes = !*n->op->domain && opset < 11;
    bool good =
        v == newest || (undo_upgrades(as, v->since, why) && (!old_axes || fit_axes(as, why)) &&
                        fit_attributes(as, v, why) && fit_inputs(as, v, why) && fit_types(as, v, why));
    if (good && n->loc && n->loc->version != v->since) drop_defaults(as, v);
    return good;
}
