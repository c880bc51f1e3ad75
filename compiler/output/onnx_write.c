// The graph as an ONNX model, for viewers and other tools. In: a module. Out: a binary ModelProto, in which
// nodes have the form of the chosen opset (onnx_opset.h).
//
// A message is a list of pieces: bytes made here, and weights in their own memory. So sizes are known before
// anything is written, and weights are never copied.
#include "compiler/output/onnx_write.h"
#include "compiler/base/protobuf.h"
#include "compiler/output/onnx_opset.h"
#include <math.h>
#include <string.h>

// ---------------------------------------------------------------- messages
typedef struct piece {
    const void *at;
    size_t n;
} piece;
typedef struct message {
    arena *arena;
    VEC(piece) pieces;
    text own;    // bytes that are not a piece yet
    size_t size; // of the pieces
} message;

static message message_new(arena *a) { return (message){.arena = a, .own = {.arena = a}}; }

static void put_int(message *m, int field, int64_t v) { pb_int(&m->own, field, (uint64_t)v); }
static void put_bytes(message *m, int field, const void *s, size_t n) { pb_bytes(&m->own, field, s, n); }
static void put_float(message *m, int field, float v) {
    pb_tag(&m->own, field, WIRE_32);
    text_addn(&m->own, (const char *)&v, sizeof v);
}
static void put_text(message *m, int field, const char *s) {
    if (s && *s) put_bytes(m, field, s, strlen(s));
}

static void add_piece(message *m, const void *at, size_t n) {
    if (n) VEC_PUSH(m->arena, &m->pieces, (piece){at, n});
    m->size += n;
}

static void end_piece(message *m) {
    add_piece(m, m->own.s, m->own.n);
    m->own = (text){.arena = m->arena};
}

static void begin_outside(message *m, int field, size_t n) {
    pb_tag(&m->own, field, WIRE_BYTES);
    pb_varint(&m->own, n);
    end_piece(m);
}

// Bytes that outlive the message.
static void put_outside(message *m, int field, const void *s, size_t n) {
    begin_outside(m, field, n);
    add_piece(m, s, n);
}

static void put_message(message *m, int field, message inner) {
    enum { COPIED_MOST = 256 };
    end_piece(&inner);
    if (inner.pieces.n == 1 && inner.size <= COPIED_MOST) {
        put_bytes(m, field, inner.pieces.at[0].at, inner.size);
        return;
    }
    begin_outside(m, field, inner.size);
    for (int i = 0; i < inner.pieces.n; i++) add_piece(m, inner.pieces.at[i].at, inner.pieces.at[i].n);
}

// ---------------------------------------------------------------- names
typedef struct writer {
    arena *arena;
    const module *m;
    const char **names; // by value id
    map opsets;         // domain -> version
    map node_names;     // taken
    node *nodes;        // by id, as that version of their operators expresses them
    int *reads;         // of values by id, by these nodes and as outputs
    int newest_dtype;
    onnx_external *external; // NULL: none
} writer;

static const char *name_of(const writer *w, const value *v) { return v ? w->names[v->id] : ""; }

// Outputs keep the names of the model; other values with such a name are renamed.
static bool takes_output_name(const graph *g, int i) {
    const value *v = g->outputs.at[i];
    if (!v->def || v->def->graph != g) return false;
    for (int j = 0; j < i; j++)
        if (g->outputs.at[j] == v) return false;
    return true;
}

static void choose_names(writer *w) {
    const graph *g = w->m->main;
    map taken = {.arena = w->arena};
    for (int j = 0; j < g->inputs.n; j++) map_put(&taken, g->inputs.at[j]->name, g->inputs.at[j]);
    for (int j = 0; j < g->outputs.n; j++) {
        map_put(&taken, g->output_names.at[j], g->outputs.at[j]);
        if (takes_output_name(g, j)) w->names[g->outputs.at[j]->id] = g->output_names.at[j];
    }
    for (int j = 0; j < w->m->values.n; j++) {
        const value *v = w->m->values.at[j];
        if (w->names[j]) continue;
        bool free = !map_get(&taken, v->name) || (!v->def && v->graph == g && !v->constant);
        w->names[j] = free ? v->name : arena_printf(w->arena, "%s.%d", v->name, j);
    }
}

// ---------------------------------------------------------------- types and tensors
static void note_dtype(writer *w, dtype t) {
    if ((int)t > w->newest_dtype) w->newest_dtype = (int)t;
}

static message shape_message(writer *w, const type *t) {
    message shape = message_new(w->arena);
    for (int j = 0; j < t->rank; j++) {
        message d = message_new(w->arena);
        if (dim_is_const(t->dims[j])) put_int(&d, 1, dim_value(t->dims[j]));
        else if (t->dims[j]->kind == DIM_SYMBOL) put_text(&d, 2, t->dims[j]->name);
        else if (!dim_is_opaque(t->dims[j])) put_text(&d, 2, dim_text(w->arena, t->dims[j]));
        put_message(&shape, 1, d);
    }
    return shape;
}

static message type_message(writer *w, const type *t) {
    message outer = message_new(w->arena), inner = message_new(w->arena);
    static const int fields[] = {
        [TYPE_TENSOR] = 1, [TYPE_SEQUENCE] = 4, [TYPE_MAP] = 5, [TYPE_SPARSE] = 8, [TYPE_OPTIONAL] = 9};
    note_dtype(w, t->elem);
    if (t->kind == TYPE_NONE) return outer;
    if (t->kind == TYPE_TENSOR || t->kind == TYPE_SPARSE || t->kind == TYPE_MAP)
        put_int(&inner, 1, (int)t->elem);
    if ((t->kind == TYPE_TENSOR || t->kind == TYPE_SPARSE) && t->rank >= 0) {
        put_message(&inner, 2, shape_message(w, t));
    }
    if (t->item) put_message(&inner, t->kind == TYPE_MAP ? 2 : 1, type_message(w, t->item));
    put_message(&outer, fields[t->kind], inner);
    return outer;
}

static message value_info(writer *w, const char *name, const value *v) {
    message m = message_new(w->arena);
    put_text(&m, 1, name);
    if (v->type.kind != TYPE_NONE) {
        put_message(&m, 2, type_message(w, &v->type));
    }
    put_text(&m, 3, v->doc);
    return m;
}

// The data of a splat.
static const uint8_t *spread(arena *a, const constant *c) {
    int bits = dtype_bits(c->elem);
    int64_t n = dtype_size(c->elem, c->count);
    uint8_t *all = arena_alloc(a, (size_t)n + 1), one[16];
    memcpy(one, c->splat, sizeof one);
    for (int b = bits; b < 8; b *= 2) one[0] |= (uint8_t)(one[0] << b);
    int64_t size = bits < 8 ? 1 : bits / 8;
    for (int64_t i = 0; i < n; i += size) memcpy(all + i, one, (size_t)size);
    return all;
}

// The elements as raw_data stores them.
static const uint8_t *raw_bytes(arena *a, const constant *c, size_t size) {
    const uint8_t *data = c->kind == CONST_SPLAT ? spread(a, c) : c->data;
    if ((int64_t)size == dtype_size(c->elem, c->count)) return data;
    uint8_t *raw = arena_alloc(a, size + 1);
    dtype_pack(raw, data, c->count);
    return raw;
}

static void put_entry(writer *w, message *m, const char *key, const char *v) {
    message entry = message_new(w->arena);
    put_text(&entry, 1, key);
    put_text(&entry, 2, v);
    put_message(m, 13, entry);
}

// The bytes in the file beside the model, where they begin at a page.
static void put_external(writer *w, message *m, const uint8_t *data, size_t n) {
    enum { PAGE = 4096 };
    static const char zeros[PAGE];
    onnx_external *e = w->external;
    int64_t gap = (PAGE - e->size % PAGE) % PAGE;
    sink_addn(e->to, zeros, (size_t)gap);
    put_entry(w, m, "location", e->location);
    put_entry(w, m, "offset", arena_printf(w->arena, "%lld", (long long)(e->size + gap)));
    put_entry(w, m, "length", arena_printf(w->arena, "%zu", n));
    put_int(m, 14, 1);
    sink_addn(e->to, (const char *)data, n);
    e->size += gap + (int64_t)n;
}

static message tensor_message(writer *w, const char *name, const constant *c) {
    enum { EXTERNAL_LEAST = 1024 };
    message m = message_new(w->arena);
    note_dtype(w, c->elem);
    for (int j = 0; j < c->rank; j++) put_int(&m, 1, c->dims[j]);
    put_int(&m, 2, (int)c->elem);
    put_text(&m, 8, name);
    size_t n = c->kind == CONST_STRINGS ? 0 : (size_t)dtype_raw_size(c->elem, c->count);
    switch (c->kind) {
    case CONST_STRINGS:
        for (int64_t i = 0; i < c->count; i++) put_bytes(&m, 6, c->strings[i], c->string_sizes[i]);
        break;
    case CONST_SPLAT:
    case CONST_ROUNDED: // not in graphs
    case CONST_BYTES:
        if (w->external && n >= EXTERNAL_LEAST) put_external(w, &m, raw_bytes(w->arena, c, n), n);
        else put_outside(&m, 9, raw_bytes(w->arena, c, n), n);
        break;
    }
    return m;
}

static bool is_zero(const constant *c, int64_t i) {
    if (c->kind == CONST_STRINGS) return false;
    if (!dtype_is_float(c->elem)) return constant_int(c, i) == 0;
    double v = constant_float(c, i);
    return v == 0 && !signbit(v);
}

// The elements other than 0, with their positions in row-major order.
static message sparse_message(writer *w, const constant *c) {
    message m = message_new(w->arena);
    int64_t *places = ARENA_ARRAY(w->arena, int64_t, c->count + 1), count = 0;
    for (int64_t i = 0; i < c->count; i++)
        if (!is_zero(c, i)) places[count++] = i;
    constant *indices = constant_new(w->arena, DT_I64, 1, &count);
    memcpy((void *)indices->data, places, (size_t)count * sizeof *places);
    put_message(&m, 1, tensor_message(w, "", pick_constant(w->arena, c, places, count)));
    put_message(&m, 2, tensor_message(w, "", indices));
    for (int i = 0; i < c->rank; i++) put_int(&m, 3, c->dims[i]);
    return m;
}

// ---------------------------------------------------------------- nodes
static message graph_message(writer *w, const graph *g);

static message attribute(writer *w, const attr *a) {
    message m = message_new(w->arena);
    put_text(&m, 1, a->name);
    put_int(&m, 20, (int)a->kind);
    switch (a->kind) {
    case ATTR_NONE: break;
    case ATTR_FLOAT: put_float(&m, 2, a->f); break;
    case ATTR_INT: put_int(&m, 3, a->i); break;
    case ATTR_STRING: put_bytes(&m, 4, a->s, a->size); break;
    case ATTR_TENSOR: put_message(&m, 5, tensor_message(w, "", a->tensor)); break;
    case ATTR_SPARSE_TENSOR: put_message(&m, 22, sparse_message(w, a->tensor)); break;
    case ATTR_GRAPH: put_message(&m, 6, graph_message(w, a->graph)); break;
    case ATTR_FLOATS:
        for (int i = 0; i < a->n; i++) put_float(&m, 7, a->floats[i]);
        break;
    case ATTR_INTS:
        for (int i = 0; i < a->n; i++) put_int(&m, 8, a->ints[i]);
        break;
    case ATTR_STRINGS:
        for (int i = 0; i < a->n; i++) put_bytes(&m, 9, a->strings[i], strlen(a->strings[i]));
        break;
    case ATTR_GRAPHS:
        for (int i = 0; i < a->n; i++) put_message(&m, 11, graph_message(w, a->graphs[i]));
        break;
    case ATTR_TYPE: put_message(&m, 14, type_message(w, a->type)); break;
    case ATTR_TENSORS:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPES:
        diag_fatal_missing(w->m->diag, NULL, "--emit=onnx: attribute '%s' is a list of tensors or types",
                           a->name);
    }
    return m;
}

// Nodes of functions and upgrades repeat names, which must be unique. NULL: the node has no name.
static const char *node_name(writer *w, const node *n) {
    const char *base = n->loc && !n->loc->unnamed ? n->loc->node : NULL, *name = base;
    if (!base || !*base) return NULL;
    while (map_get(&w->node_names, name)) {
        intptr_t last = (intptr_t)map_get(&w->node_names, base);
        name = arena_printf(w->arena, "%s_%d", base, (int)last);
        map_put(&w->node_names, base, (void *)(last + 1));
    }
    map_put(&w->node_names, name, (void *)(intptr_t)1);
    return name;
}

static bool makes_values(const node *n) {
    for (int i = 0; i < n->nout; i++)
        if (n->out[i]) return true;
    return false;
}

// What branches and bodies return is not optional: an output that nothing reads has a name, too.
static const char *node_output_name(writer *w, const node *n, int i) {
    return n->out[i] || !node_region(n, 0) ? name_of(w, n->out[i])
                                           : arena_printf(w->arena, "unread.%d.%d", n->id, i);
}

static message node_message(writer *w, const node *of) {
    message m = message_new(w->arena);
    const node *n = &w->nodes[of->id];
    int nin = n->nin, nout = n->nout;
    while (nout && !*node_output_name(w, n, nout - 1)) nout--;
    for (int i = 0; i < nin; i++) put_bytes(&m, 1, name_of(w, n->in[i]), strlen(name_of(w, n->in[i])));
    for (int i = 0; i < nout; i++) {
        const char *name = node_output_name(w, n, i);
        put_bytes(&m, 2, name, strlen(name));
    }
    put_text(&m, 3, node_name(w, n));
    put_text(&m, 4, n->op->name);
    put_text(&m, 7, n->op->domain);
    for (int i = 0; i < n->nattrs; i++) {
        put_message(&m, 5, attribute(w, &n->attrs[i]));
    }
    put_text(&m, 6, n->doc);
    return m;
}

// Identity, for an output that is an input, a constant, an outer value or an earlier output, by another name.
static void put_identity(writer *w, message *m, const char *from, const char *to) {
    message n = message_new(w->arena);
    put_text(&n, 1, from);
    put_text(&n, 2, to);
    put_text(&n, 4, "Identity");
    put_message(m, 1, n);
}

static const char *output_name(writer *w, const graph *g, int i) {
    if (!g->outer) return g->output_names.at[i];
    return takes_output_name(g, i) ? name_of(w, g->outputs.at[i])
                                   : arena_printf(w->arena, "%s.out%d.%d", g->name, g->id, i);
}

static bool is_output(const graph *g, const value *v) {
    for (int i = 0; i < v->uses.n; i++)
        if (v->uses.at[i].graph == g) return true;
    return false;
}

static void put_values(writer *w, message *m, const graph *g) {
    for (int j = 0; j < w->m->values.n; j++) {
        const value *v = w->m->values.at[j];
        if (v->graph != g) continue;
        if (v->constant && !v->def && w->reads[v->id]) {
            put_message(m, 5, tensor_message(w, name_of(w, v), v->constant));
        } else if (v->def && v->type.kind != TYPE_NONE && !is_output(g, v)) {
            put_message(m, 13, value_info(w, name_of(w, v), v));
        }
    }
}

static message graph_message(writer *w, const graph *g) {
    message m = message_new(w->arena);
    for (int i = 0; i < g->nodes.n; i++)
        if (makes_values(g->nodes.at[i])) put_message(&m, 1, node_message(w, g->nodes.at[i]));
    for (int i = 0; i < g->outputs.n; i++) {
        const char *from = name_of(w, g->outputs.at[i]), *to = output_name(w, g, i);
        if (strcmp(from, to) != 0) put_identity(w, &m, from, to);
    }
    put_text(&m, 2, g->outer ? g->name : w->m->name);
    put_values(w, &m, g);
    put_text(&m, 10, g->outer ? NULL : w->m->graph_doc);
    for (int i = 0; i < g->inputs.n; i++) {
        put_message(&m, 11, value_info(w, name_of(w, g->inputs.at[i]), g->inputs.at[i]));
        if (!g->inputs.at[i]->fallback) continue;
        put_message(&m, 5, tensor_message(w, name_of(w, g->inputs.at[i]), g->inputs.at[i]->fallback));
    }
    for (int i = 0; i < g->outputs.n; i++) {
        put_message(&m, 12, value_info(w, output_name(w, g, i), g->outputs.at[i]));
    }
    return m;
}

// ---------------------------------------------------------------- the model
// The IR version introduced with an opset or element type.
static int ir_version(const writer *w, int opset) {
    static const struct {
        int opset, dtype, version;
    } known[] = {{28, DT_F6E2M3, 14}, {25, DT_U2, 13},   {24, DT_F8E8M0, 12},
                 {23, DT_F4E2M1, 11}, {21, DT_U4, 10},   {19, DT_F8E4M3FN, 9},
                 {15, DT_COUNT, 8},   {12, DT_COUNT, 7}, {0, DT_COUNT, 6}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (opset >= known[i].opset || w->newest_dtype >= known[i].dtype) return known[i].version;
    return 6;
}

static void express_nodes(writer *w) {
    const module *m = w->m;
    w->nodes = ARENA_ARRAY(m->arena, node, m->nodes.n + 1);
    w->reads = ARENA_ARRAY(m->arena, int, m->values.n + 1);
    for (int i = 0; i < m->nodes.n; i++) {
        const node *n = m->nodes.at[i];
        const char *why;
        if (!n->graph || !makes_values(n)) continue;
        node *as = &w->nodes[i];
        if (!node_downgrade(n, (int)(intptr_t)map_get(&w->opsets, n->op->domain), as, &why))
            diag_fatal(m->diag, n->loc, "%s cannot be written with the other nodes: %s", n->op->name, why);
        for (int k = 0; k < as->nin; k++)
            if (as->in[k]) w->reads[as->in[k]->id]++;
    }
    for (int i = 0; i < m->values.n; i++)
        for (int k = 0; k < m->values.at[i]->uses.n; k++)
            w->reads[i] += m->values.at[i]->uses.at[k].graph != NULL;
}

static void put_about(const writer *w, message *model) {
    const module *m = w->m;
    int version = ir_version(w, (int)(intptr_t)map_get(&w->opsets, ""));
    put_int(model, 1, version > m->ir_version ? version : m->ir_version);
    put_text(model, 2, m->producer_name ? m->producer_name : m->producer);
    put_text(model, 3, m->producer_version);
    put_text(model, 4, m->domain);
    if (m->model_version) put_int(model, 5, m->model_version);
    put_text(model, 6, m->doc);
}

static void put_opsets(const writer *w, message *model) {
    for (int i = 0; i < w->opsets.n; i++) {
        message o = message_new(w->arena);
        put_text(&o, 1, w->opsets.slots[i].key);
        put_int(&o, 2, (int)(intptr_t)w->opsets.slots[i].value);
        put_message(model, 8, o);
    }
}

int64_t onnx_weight_bytes(const module *m) {
    int64_t bytes = 0;
    for (int i = 0; i < m->values.n; i++) {
        const value *v = m->values.at[i];
        bool counts = v->graph && v->constant && v->constant->kind != CONST_STRINGS && value_uses(v);
        if (counts) bytes += dtype_raw_size(v->constant->elem, v->constant->count);
    }
    return bytes;
}

void onnx_write(const module *m, const string_list *opsets, const sink *to, onnx_external *external) {
    writer w = {.arena = m->arena,
                .m = m,
                .opsets = {.arena = m->arena},
                .node_names = {.arena = m->arena},
                .external = external};
    w.names = ARENA_ARRAY(m->arena, const char *, m->values.n + 1);
    choose_names(&w);
    choose_opsets(m, opsets, &w.opsets);
    express_nodes(&w);
    message graph = graph_message(&w, m->main), model = message_new(m->arena);
    put_about(&w, &model);
    put_message(&model, 7, graph);
    put_opsets(&w, &model);
    for (int i = 0; i + 1 < m->metadata.n; i += 2) {
        message pair = message_new(m->arena);
        put_text(&pair, 1, m->metadata.at[i]);
        put_text(&pair, 2, m->metadata.at[i + 1]);
        put_message(&model, 14, pair);
    }
    end_piece(&model);
    if (model.size >= (size_t)1 << 31)
        diag_fatal_missing(m->diag, NULL,
                           "--emit=onnx: the model has %zu bytes, and protobuf is limited to 2 GiB",
                           model.size);
    for (int i = 0; i < model.pieces.n; i++) sink_addn(to, model.pieces.at[i].at, model.pieces.at[i].n);
}
