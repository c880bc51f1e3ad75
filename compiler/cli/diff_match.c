// In: two models. Out: pairs of nodes. Names count less than what nodes compute, since exporters number their nodes:
// first nodes that compute the same from the inputs on, then those with the same constants, then neighbours of pairs,
// then those of one name or one kind.
#include "compiler/cli/diff.h"
#include <string.h>

enum { SAMPLES = 4096 };

// ---------------------------------------------------------------- hashes
static uint64_t mix(uint64_t h, uint64_t v) { return hash_bytes(h, &v, sizeof v); }

static uint64_t hash_type(const constant *c) {
    uint64_t h = mix(HASH_SEED, (uint64_t)c->elem);
    for (int j = 0; j < c->rank; j++) h = mix(h, (uint64_t)c->dims[j]);
    return h;
}

// Elements spread over the constant.
static uint64_t hash_content(const constant *c) {
    uint64_t h = hash_type(c);
    int64_t step = c->count / SAMPLES + 1;
    for (int64_t i = 0; i < c->count; i += step) {
        if (c->kind == CONST_STRINGS) h = hash_bytes(h, c->strings[i], c->string_sizes[i]);
        else if (dtype_is_float(c->elem)) {
            double v = constant_float(c, i);
            h = hash_bytes(h, &v, sizeof v);
        } else h = mix(h, (uint64_t)constant_int(c, i));
    }
    return h;
}

static uint64_t hash_attr(uint64_t h, const attr *t) {
    h = hash_string(h, t->name);
    h = mix(h, (uint64_t)t->kind);
    switch (t->kind) {
    case ATTR_FLOAT: return hash_bytes(h, &t->f, sizeof t->f);
    case ATTR_INT: return mix(h, (uint64_t)t->i);
    case ATTR_STRING: return hash_bytes(h, t->s, t->size);
    case ATTR_FLOATS: return hash_bytes(h, t->floats, (size_t)t->n * sizeof *t->floats);
    case ATTR_INTS: return hash_bytes(h, t->ints, (size_t)t->n * sizeof *t->ints);
    case ATTR_STRINGS:
        for (int i = 0; i < t->n; i++) h = hash_string(h, t->strings[i]);
        return h;
    case ATTR_TENSOR: return mix(h, hash_content(t->tensor));
    case ATTR_GRAPH:
    case ATTR_GRAPHS:
    case ATTR_TYPE:
    case ATTR_NONE:
    case ATTR_TENSORS:
    case ATTR_SPARSE_TENSOR:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPES: break;
    }
    return h;
}

// Attributes are in no order.
static uint64_t hash_kind(const probed_node *n) {
    uint64_t h = hash_string(hash_string(HASH_SEED, n->as.domain), n->as.op), all = 0;
    for (int i = 0; i < n->as.nattrs; i++) all += hash_attr(HASH_SEED, &n->as.attrs[i]);
    return mix(mix(h, all), (uint64_t)n->as.nin);
}

static void hash_node(const diff_side *s, diff_node *n) {
    n->kind = hash_kind(n->is);
    n->local = n->cone = mix(n->kind, n->owner < 0 ? 0 : s->nodes.at[n->owner].kind);
    for (int i = 0; i < n->is->as.nin; i++) {
        const diff_ref *r = &n->in[i];
        uint64_t local = (uint64_t)r->from, cone = local;
        switch (r->from) {
        case FROM_CONSTANT: local = cone = s->constants.at[r->at].content; break;
        case FROM_NODE: cone = mix(s->nodes.at[r->at].cone, (uint64_t)r->output); break;
        case FROM_INPUT:
        case FROM_BODY_INPUT: cone = mix(cone, (uint64_t)r->at); break;
        case FROM_NOTHING: break;
        }
        n->local = mix(n->local, local);
        n->cone = mix(n->cone, cone);
    }
}

// ---------------------------------------------------------------- reading a model
static diff_ref ref_of(const diff_side *s, const char *name) {
    const diff_ref *r = name ? map_get(&s->refs, name) : NULL;
    return r ? *r : (diff_ref){0};
}

static void name_ref(diff *d, diff_side *s, const char *name, diff_ref r) {
    diff_ref *own = ARENA_NEW(d->arena, diff_ref);
    *own = r;
    if (!map_get(&s->refs, name)) map_put(&s->refs, name, own);
}

static void add_constant(diff *d, diff_side *s, const char *name, const constant *c) {
    name_ref(d, s, name, (diff_ref){.from = FROM_CONSTANT, .at = s->constants.n});
    diff_constant own = {.name = name,
                         .data = c,
                         .type = hash_type(c),
                         .content = hash_content(c),
                         .match = -1,
                         .dequantised = -1};
    VEC_PUSH(d->arena, &s->constants, own);
}

// The tensor that a Constant gives; NULL: n is another node.
static const constant *given_constant(arena *a, const probed_node *n) {
    if (strcmp(n->as.op, "Constant") != 0 || *n->as.domain || n->as.nattrs != 1) return NULL;
    const attr *t = &n->as.attrs[0];
    return t->kind == ATTR_TENSOR ? t->tensor : attr_numbers(a, t);
}

static void name_body_inputs(diff *d, diff_side *s, const graph *g) {
    for (int i = 0; i < g->inputs.n; i++)
        name_ref(d, s, g->inputs.at[i]->name,
                 (diff_ref){.from = g->outer ? FROM_BODY_INPUT : FROM_INPUT, .at = i});
}

static void add_node(diff *d, diff_side *s, const probed_node *n, int *number) {
    const constant *c = given_constant(d->arena, n);
    number[n->index] = -1;
    if (c) add_constant(d, s, n->out[0], c);
    if (c || n->as.call) return;
    diff_node own = {.is = n, .name = n->as.loc->unnamed ? NULL : n->as.loc->node, .owner = -1, .match = -1};
    for (const probed_node *o = n->owner; o && own.owner < 0; o = o->owner) own.owner = number[o->index];
    number[n->index] = s->nodes.n;
    name_body_inputs(d, s, n->as.graph);
    for (int i = 0; i < n->as.nout; i++)
        if (n->out[i]) name_ref(d, s, n->out[i], (diff_ref){FROM_NODE, s->nodes.n, i});
    VEC_PUSH(d->arena, &s->nodes, own);
}

static bool wants_none(void *user, const probed_node *n, int output) {
    return (void)user, (void)n, (void)output, false;
}

// Constants that nodes of the file read: the import adds others.
static void add_initializers(diff *d, diff_side *s) {
    const map *values = &s->pipeline->module->names;
    for (int j = 0; j < s->probes->nodes.n; j++) {
        const probed_node *n = s->probes->nodes.at[j];
        for (int i = 0; i < n->as.nin; i++) {
            const value *v = n->in[i] ? map_get(values, n->in[i]) : NULL;
            if (v && v->constant && !map_get(&s->refs, v->name)) add_constant(d, s, v->name, v->constant);
        }
    }
}

void diff_read(diff *d, diff_side *s, const char *path) {
    options *o = ARENA_NEW(d->arena, options);
    *o = d->session->options;
    o->stop_after = "import";
    *s = (diff_side){.path = path, .refs = {.arena = d->arena}, .probes = probes_new(d->arena)};
    s->probes->wants = wants_none;
    s->pipeline = session_pipeline(d->session, o);
    s->pipeline->probes = s->probes;
    d->session->diag.file = path;
    source *from = ARENA_NEW(d->arena, source);
    *from = session_source(d->session, path);
    pipeline_run(s->pipeline, from, GOAL_GRAPH);
    name_body_inputs(d, s, s->pipeline->module->main);
    add_initializers(d, s);
    int *number = ARENA_ARRAY(d->arena, int, s->probes->nodes.n + 1);
    for (int j = 0; j < s->probes->nodes.n; j++) add_node(d, s, s->probes->nodes.at[j], number);
    for (int j = 0; j < s->nodes.n; j++) {
        diff_node *n = &s->nodes.at[j];
        n->in = ARENA_ARRAY(d->arena, diff_ref, n->is->as.nin + 1);
        for (int i = 0; i < n->is->as.nin; i++) n->in[i] = ref_of(s, n->is->in[i]);
        hash_node(s, n);
    }
}

// ---------------------------------------------------------------- pairs
static diff_node *node_of(diff *d, int side, int at) { return &d->side[side].nodes.at[at]; }

static bool same_op(const diff_node *a, const diff_node *b) {
    return strcmp(a->is->as.op, b->is->as.op) == 0 && strcmp(a->is->as.domain, b->is->as.domain) == 0;
}

static bool owners_agree(diff *d, const diff_node *a, const diff_node *b) {
    if ((a->owner < 0) != (b->owner < 0)) return false;
    if (a->owner < 0) return true;
    int match = node_of(d, 0, a->owner)->match;
    return match == b->owner || (match < 0 && node_of(d, 1, b->owner)->match < 0);
}

static void pair(diff *d, int a, int b) {
    diff_node *x = node_of(d, 0, a), *y = node_of(d, 1, b);
    x->match = b, y->match = a;
}

typedef enum diff_key { KEY_CONE, KEY_LOCAL, KEY_NAME, KEY_OUTPUT, KEY_KIND, KEY_OP } diff_key;

// 0: the node has no such key.
static uint64_t key_of(const diff_side *s, const diff_node *n, diff_key k) {
    bool constants = false;
    switch (k) {
    case KEY_CONE: return n->cone;
    case KEY_LOCAL: // one number or two do not identify a node
        for (int i = 0; i < n->is->as.nin; i++)
            constants |= n->in[i].from == FROM_CONSTANT && s->constants.at[n->in[i].at].data->count > 2;
        return constants ? n->local : 0;
    case KEY_NAME: return n->name ? hash_string(HASH_SEED, n->name) : 0;
    case KEY_OUTPUT: return n->is->as.nout && n->is->out[0] ? hash_string(HASH_SEED, n->is->out[0]) : 0;
    case KEY_KIND: return n->kind;
    case KEY_OP: return hash_string(hash_string(HASH_SEED, n->is->as.domain), n->is->as.op);
    }
    return 0;
}

typedef struct bucket {
    VEC(int) at[2];
} bucket;

// Pairs nodes with equal keys, in order. exact: only where both models have the same number of them.
static void pair_by(diff *d, diff_key k, bool exact, bool any_op) {
    arena *scratch = arena_new();
    map buckets = {.arena = scratch};
    for (int s = 0; s < 2; s++) {
        for (int j = 0; j < d->side[s].nodes.n; j++) {
            const diff_node *n = node_of(d, s, j);
            uint64_t key = n->match < 0 ? key_of(&d->side[s], n, k) : 0;
            if (!key) continue;
            bucket *b = map_get_number(&buckets, key);
            if (!b) map_put_number(&buckets, key, b = ARENA_NEW(scratch, bucket));
            VEC_PUSH(scratch, &b->at[s], j);
        }
    }
    for (int j = 0; j < buckets.n; j++) {
        const bucket *b = buckets.slots[j].value;
        if (exact && b->at[0].n != b->at[1].n) continue;
        for (int i = 0; i < b->at[0].n && i < b->at[1].n; i++) {
            const diff_node *x = node_of(d, 0, b->at[0].at[i]), *y = node_of(d, 1, b->at[1].at[i]);
            if ((any_op || same_op(x, y)) && owners_agree(d, x, y)) pair(d, b->at[0].at[i], b->at[1].at[i]);
        }
    }
    arena_destroy(scratch);
}

// Producers of the inputs of a pair are a pair if their operators are the same.
static bool pair_producers(diff *d, int a) {
    const diff_node *x = node_of(d, 0, a), *y = node_of(d, 1, x->match);
    bool any = false;
    for (int i = 0; i < x->is->as.nin && i < y->is->as.nin; i++) {
        const diff_ref *p = &x->in[i], *q = &y->in[i];
        if (p->from != FROM_NODE || q->from != FROM_NODE || p->output != q->output) continue;
        const diff_node *u = node_of(d, 0, p->at), *v = node_of(d, 1, q->at);
        if (u->match >= 0 || v->match >= 0 || !same_op(u, v) || !owners_agree(d, u, v)) continue;
        pair(d, p->at, q->at);
        any = true;
    }
    return any;
}

// A reader of an output of a pair is a pair with the other's reader of the same operator and input, if that is the
// only one left.
static bool pair_reader(diff *d, int b_reader, int a_reader, int input) {
    const diff_node *x = node_of(d, 0, a_reader), *y = node_of(d, 1, b_reader);
    if (x->match >= 0 || y->match >= 0 || !same_op(x, y) || !owners_agree(d, x, y)) return false;
    if (input >= y->is->as.nin) return false;
    const diff_ref *p = &x->in[input], *q = &y->in[input];
    if (p->from != FROM_NODE || q->from != FROM_NODE || p->output != q->output) return false;
    if (node_of(d, 0, p->at)->match != q->at) return false;
    pair(d, a_reader, b_reader);
    return true;
}

typedef VEC(int) int_list;
static int_list *readers_of(diff *d, arena *scratch, int side) {
    const diff_side *s = &d->side[side];
    int_list *readers = ARENA_ARRAY(scratch, int_list, s->nodes.n + 1);
    for (int j = 0; j < s->nodes.n; j++)
        for (int i = 0; i < s->nodes.at[j].is->as.nin; i++)
            if (s->nodes.at[j].in[i].from == FROM_NODE)
                VEC_PUSH(scratch, &readers[s->nodes.at[j].in[i].at], j);
    return readers;
}

static bool pair_readers(diff *d, const int_list *a, const int_list *b) {
    bool any = false;
    for (int i = 0; i < a->n; i++) {
        const diff_node *x = node_of(d, 0, a->at[i]);
        for (int k = 0; x->match < 0 && k < x->is->as.nin; k++)
            for (int j = 0; j < b->n && x->match < 0; j++) any |= pair_reader(d, b->at[j], a->at[i], k);
    }
    return any;
}

static void pair_neighbours(diff *d) {
    arena *scratch = arena_new();
    int_list *a = readers_of(d, scratch, 0), *b = readers_of(d, scratch, 1);
    for (bool any = true; any;) {
        any = false;
        for (int j = 0; j < d->side[0].nodes.n; j++) {
            int match = node_of(d, 0, j)->match;
            if (match < 0) continue;
            any |= pair_producers(d, j);
            any |= pair_readers(d, &a[j], &b[match]);
        }
    }
    arena_destroy(scratch);
}

// ---------------------------------------------------------------- constants
static void pair_constants(diff *d, int a, int b) {
    diff_constant *x = &d->side[0].constants.at[a], *y = &d->side[1].constants.at[b];
    if (x->match < 0 && y->match < 0) x->match = b, y->match = a;
}

// The constant that input i is, or that a DequantizeLinear makes it of; -1: none. *node: the DequantizeLinear.
static int constant_of_input(diff *d, int side, const diff_node *n, int i, int *node) {
    const diff_ref *r = &n->in[i];
    *node = -1;
    if (r->from == FROM_NODE && strcmp(node_of(d, side, r->at)->is->as.op, "DequantizeLinear") == 0)
        *node = r->at, r = &node_of(d, side, r->at)->in[0];
    return r->from == FROM_CONSTANT ? r->at : -1;
}

static void match_constants_of(diff *d, const diff_node *x, const diff_node *y) {
    for (int i = 0; i < x->is->as.nin && i < y->is->as.nin; i++) {
        int through[2], a = constant_of_input(d, 0, x, i, &through[0]),
                        b = constant_of_input(d, 1, y, i, &through[1]);
        if (a < 0 || b < 0) continue;
        pair_constants(d, a, b);
        if (d->side[0].constants.at[a].match != b || (through[0] >= 0) == (through[1] >= 0)) continue;
        d->side[0].constants.at[a].dequantised = through[0];
        d->side[1].constants.at[b].dequantised = through[1];
    }
}

static void match_constants(diff *d) {
    for (int j = 0; j < d->side[0].nodes.n; j++) {
        const diff_node *x = node_of(d, 0, j);
        if (x->match >= 0) match_constants_of(d, x, node_of(d, 1, x->match));
    }
    for (int j = 0; j < d->side[0].constants.n; j++) {
        diff_ref r = ref_of(&d->side[1], d->side[0].constants.at[j].name);
        if (r.from == FROM_CONSTANT) pair_constants(d, j, r.at);
    }
}

void diff_match(diff *d) {
    pair_by(d, KEY_CONE, true, false);
    pair_by(d, KEY_LOCAL, true, false);
    pair_neighbours(d);
    pair_by(d, KEY_NAME, false, false);
    pair_neighbours(d);
    pair_by(d, KEY_OUTPUT, false, false);
    pair_neighbours(d);
    pair_by(d, KEY_KIND, false, false);
    pair_neighbours(d);
    pair_by(d, KEY_OP, true, false);
    pair_by(d, KEY_NAME, false, true);
    pair_by(d, KEY_OUTPUT, false, true);
    match_constants(d);
}
