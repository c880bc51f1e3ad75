// Shape inference. In: a graph whose inputs have types and whose other values may have declared ones. Out:
// types, symbolic contents and run-time checks. Operators infer themselves with the helpers here; the type
// constraints of the standard and the declarations of the model are checked around them.
#include "ir/graph/op.h"
#include <limits.h>
#include <setjmp.h>
#include <string.h>

enum { CONTENTS_MOST = 4096, OPAQUES_PER_NODE = 4096, ABSORBED_MOST = 1 << 18 };
static const int64_t MOST_BYTES = INT64_C(1) << 47;

struct infer_state {
    jmp_buf *leave; // target of infer_rank when a rank is unknown
    int opaques;    // opaque dims made for the current node
    map made;       // node id * OPAQUES_PER_NODE + count -> dim, so that inferring again gives the same dims
    map seen;       // pairs of dims and node with a check
    map inferred;   // id of value -> declared type, once its type is inferred
    int64_t absorbed; // nodes inferred again because a node absorbed others
};

static struct infer_state *state_of(const node *n) {
    module *m = n->graph->module;
    if (!m->infer) {
        m->infer = ARENA_NEW(m->arena, struct infer_state);
        m->infer->made.arena = m->infer->seen.arena = m->infer->inferred.arena = m->arena;
    }
    return m->infer;
}

void infer_error(const node *n, const char *format, ...) {
    ARENA_VARIADIC(infer_arena(n), text, format);
    diag_fatal(n->graph->module->diag, n->loc, "%s", text);
}

void infer_lacks(const node *n, const char *format, ...) {
    ARENA_VARIADIC(infer_arena(n), text, format);
    diag_fatal_missing(n->graph->module->diag, n->loc, "%s", text);
}

dims *infer_dims(const node *n) { return n->graph->module->dims; }

arena *infer_arena(const node *n) { return n->graph->module->arena; }

dim *infer_k(const node *n, int64_t k) { return dim_const(infer_dims(n), k); }

// ---- Names for messages

static const schema_version *newest(const op_def *op) {
    const schema_op *s = schema_find(op->domain, op->name);
    return s ? &s->versions[s->nversions - 1] : NULL;
}

// The formal parameter of actual input or output i; the last one repeats when it is variadic.
static const schema_param *formal(const schema_param *params, int count, int i) {
    if (i < count) return &params[i];
    return count && params[count - 1].option == 'v' ? &params[count - 1] : NULL;
}

static const char *label(const node *n, bool out, int i) {
    const schema_version *s = newest(n->op);
    const schema_param *p = !s ? NULL : out ? formal(s->out, s->nout, i) : formal(s->in, s->nin, i);
    const value *v = out ? node_out(n, i) : node_in(n, i);
    const char *kind = out ? "output" : "input", *name = v ? v->name : "";
    if (!p || p->option == 'v') return arena_printf(infer_arena(n), "%s %d ('%s')", kind, i, name);
    if (strcmp(p->name, kind) == 0) return arena_printf(infer_arena(n), "%s '%s'", kind, name);
    return arena_printf(infer_arena(n), "%s %s ('%s')", kind, p->name, name);
}

// "'a' is float[2, 3], 'b' is float[4]"
static const char *inputs_text(const node *n) {
    enum { MOST = 4 };
    text t = {.arena = infer_arena(n)};
    for (int i = 0, said = 0; i < n->nin && said <= MOST; i++) {
        const value *v = node_in(n, i);
        if (!v) continue;
        if (said++ == MOST) text_add(&t, ", ...");
        else text_printf(&t, "%s'%s' is %s", said > 1 ? ", " : "", v->name, type_text(t.arena, &v->type));
    }
    return text_str(&t);
}

// ---- What operators read

static const value *input(const node *n, int i) {
    const value *v = node_in(n, i);
    if (!v) infer_error(n, "%s is missing", label(n, false, i));
    return v;
}

const type *infer_in(const node *n, int i) {
    const value *v = input(n, i);
    if (v->type.kind != TYPE_TENSOR)
        infer_error(n, "%s must be a tensor, but is %s", label(n, false, i),
                    type_text(infer_arena(n), &v->type));
    return &v->type;
}

bool infer_has_rank(const node *n, int i) { return infer_in(n, i)->rank != RANK_UNKNOWN; }

int infer_rank(const node *n, int i) {
    int rank = infer_in(n, i)->rank;
    if (rank != RANK_UNKNOWN) return rank;
    struct infer_state *s = state_of(n);
    if (!s->leave) diag_defect(n->graph->module->diag, n->loc, "rank asked for outside inference");
    longjmp(*s->leave, 1);
}

int infer_axis(const node *n, int64_t axis, int rank) {
    if (rank == 0) infer_error(n, "axis %lld does not exist: the tensor is a scalar", (long long)axis);
    if (axis < -(int64_t)rank || axis >= rank)
        infer_error(n, "axis %lld is outside [%d, %d]", (long long)axis, -rank, rank - 1);
    return (int)(axis < 0 ? axis + rank : axis);
}

int node_axis(const node *n, int64_t fallback, int rank) {
    return infer_axis(n, node_int(n, "axis", fallback), rank);
}

int infer_optional_axis(const node *n) {
    return node_attr(n, "axis") ? node_axis(n, 0, infer_rank(n, 0)) : -1;
}

const constant *infer_constant(const node *n, int i) {
    const value *v = node_in(n, i);
    return v ? v->constant : NULL;
}

static const int64_t WHOLE_MOST = 1LL << 53; // doubles hold all whole numbers up to this one

static bool whole(double v) {
    return v >= (double)-WHOLE_MOST && v <= (double)WHOLE_MOST && v == (double)(int64_t)v;
}

// A small constant's elements as dims; NULL when one is not a whole number.
static dim **constant_contents(const node *n, const constant *c) {
    bool exact = dtype_is_int(c->elem) || c->elem == DT_BOOL;
    if ((!exact && !dtype_is_float(c->elem)) || c->count > CONTENTS_MOST) return NULL;
    dim **contents = ARENA_ARRAY(infer_arena(n), dim *, c->count + 1);
    for (int64_t i = 0; i < c->count; i++) {
        if (!exact && !whole(constant_float(c, i))) return NULL;
        if (c->elem == DT_U64 && constant_int(c, i) < 0) return NULL;
        contents[i] = infer_k(n, exact ? constant_int(c, i) : (int64_t)constant_float(c, i));
    }
    return contents;
}

dim **infer_contents(const node *n, int i, int *count) {
    *count = 0;
    value *v = node_in(n, i);
    if (!v) return NULL;
    if (!v->contents && v->constant) {
        v->contents = constant_contents(n, v->constant);
        v->ncontents = v->contents ? (int)v->constant->count : 0;
    }
    *count = v->ncontents;
    return v->contents;
}

// ---- What operators write

static void set_type(node *n, int out, type t) {
    value *v = node_out(n, out);
    if (v) v->type = t;
}

void infer_set(node *n, int out, dtype elem, int rank, dim *const *dims) {
    if (!node_out(n, out)) return;
    if (rank > MAX_RANK)
        infer_error(n, "%s would have rank %d; at most %d is supported", label(n, true, out), rank, MAX_RANK);
    for (int i = 0; i < rank; i++)
        if (dims[i]->max < 0 || dims[i]->kind == DIM_OVERFLOW)
            infer_error(n, "%s would have dimension %d = %s", label(n, true, out), i,
                        dim_text(infer_arena(n), dims[i]));
    set_type(n, out, type_tensor(infer_arena(n), elem, rank, dims));
}

void infer_set_unknown(node *n, int out, dtype elem) {
    set_type(n, out, (type){.kind = TYPE_TENSOR, .elem = elem, .rank = RANK_UNKNOWN});
}

void infer_same(node *n, int out, int in) { set_type(n, out, input(n, in)->type); }

// The value that an element of type t holds for k; false when it is not an integer of 64 bits.
static bool held_number(int64_t k, dtype t, int64_t *held) {
    uint64_t room;
    *held = k;
    if (dtype_is_float(t)) {
        dtype_store_float(t, &room, 0, (double)k, false);
        return k >= -WHOLE_MOST && k <= WHOLE_MOST && dtype_load_float(t, &room, 0) == (double)k;
    }
    dtype_store_int(t, &room, 0, k);
    *held = dtype_load_int(t, &room, 0);
    return t != DT_U64 || k >= 0;
}

// The largest integer that type t counts exactly, for types in which models compute sizes; else 0.
static int64_t most_counted(dtype t) {
    if (t == DT_F32) return 1 << 24;
    if (t == DT_F64) return WHOLE_MOST;
    return dtype_is_int(t) && dtype_bits(t) >= 32 ? dtype_int_max(t) : 0;
}

// d as held by an element of type t; NULL when not known. Symbols are sizes: in wide types they are assumed
// to stay far below the maximum, as models do that compute sizes in these types. Narrower types need proof.
static dim *held_in(const node *n, dim *d, dtype t) {
    int64_t held, most = most_counted(t);
    if (t == DT_BOOL || t == DT_NONE) return d;
    if (d->kind == DIM_OVERFLOW) return NULL;
    if (dim_is_const(d)) return held_number(dim_value(d), t, &held) ? infer_k(n, held) : NULL;
    if (!most) return dtype_is_int(t) && d->min >= dtype_int_min(t) && d->max <= dtype_int_max(t) ? d : NULL;
    if (dtype_class_of(t) == DC_UINT && d->min < 0) return NULL;
    return d->min <= most / 2 && d->max >= -(most / 2) ? d : NULL;
}

void infer_set_contents(node *n, int out, dim *const *contents, int count) {
    value *v = node_out(n, out);
    if (!v || count > CONTENTS_MOST) return;
    // Elements that do not fill the shape, which a run refuses.
    if (v->type.kind == TYPE_TENSOR && v->type.rank == 0 && count != 1) return;
    dim **held = ARENA_ARRAY(infer_arena(n), dim *, count + 1);
    for (int i = 0; i < count; i++) {
        held[i] = held_in(n, contents[i], v->type.elem);
        if (!held[i]) return;
    }
    v->contents = held;
    v->ncontents = count;
}

dim *infer_unknown_dim(const node *n, const char *stem, const dim *hi) {
    struct infer_state *s = state_of(n);
    uint64_t key = (uint64_t)n->id * OPAQUES_PER_NODE + (uint64_t)s->opaques++ % OPAQUES_PER_NODE;
    dim *d = map_get_number(&s->made, key);
    if (d) return d;
    d = dim_opaque(infer_dims(n), stem, 0, hi && hi->max >= 0 ? hi->max : INT64_MAX);
    map_put_number(&s->made, key, d);
    return d;
}

dim *infer_data_dim(const node *n, const char *stem, const dim *hi) {
    dim *d = infer_unknown_dim(n, stem, hi);
    d->is_count = true;
    return d;
}

dim *infer_made_dim(const node *n, int i) {
    return map_get_number(&state_of(n)->made, (uint64_t)n->id * OPAQUES_PER_NODE + (uint64_t)i);
}

// ---- Equal sizes and broadcasting

// A node needs its own check even if another node checks the same sizes: that one may be removed, or not run.
static void add_check(const node *n, dim *a, dim *b, const char *what) {
    struct infer_state *s = state_of(n);
    unsigned low = (unsigned)(a->id < b->id ? a->id : b->id), high = (unsigned)(a->id ^ b->id) ^ low;
    module *m = n->graph->module;
    const char *key =
        arena_printf(m->arena, "%u %u %p %p", low, high, (const void *)n->loc, (const void *)n->graph);
    if (map_get(&s->seen, key)) return;
    map_put(&s->seen, key, a);
    VEC_PUSH(m->arena, &m->checks, ((dim_check){a, b, n->loc, n->graph, what}));
}

void infer_forget_checks(const graph *g) {
    module *m = g->module;
    int kept = 0;
    for (int j = 0; j < m->checks.n; j++)
        if (!graph_sees(m->checks.at[j].in, g)) m->checks.at[kept++] = m->checks.at[j];
    m->checks.n = kept;
}

// Constants are the most precise, then named sizes, expressions, opaque dims.
static int imprecision(const dim *d) {
    if (d->kind == DIM_CONST) return 0;
    if (d->kind == DIM_SYMBOL) return 1;
    return d->kind == DIM_OPAQUE ? 3 : 2;
}

dim *infer_same_dim(const node *n, dim *a, dim *b, const char *what) {
    arena *mem = infer_arena(n);
    switch (dim_equal(a, b)) {
    case TRI_YES: break;
    case TRI_NO: infer_error(n, "%s: %s is not %s", what, dim_text(mem, a), dim_text(mem, b));
    case TRI_UNKNOWN: add_check(n, a, b, what);
    }
    return imprecision(b) < imprecision(a) ? b : a;
}

// The common size of a and b where one of them may be 1.
dim *infer_broadcast_dim(const node *n, dim *a, dim *b, int axis) {
    if (a == b || dim_is(b, 1)) return a;
    if (dim_is(a, 1)) return b;
    dim *one = infer_k(n, 1);
    bool a_many = dim_equal(a, one) == TRI_NO, b_many = dim_equal(b, one) == TRI_NO;
    if (a_many && b_many) {
        if (dim_equal(a, b) == TRI_NO)
            infer_error(n, "cannot broadcast: sizes %s and %s at axis %d; %s", dim_text(infer_arena(n), a),
                        dim_text(infer_arena(n), b), axis, inputs_text(n));
        return infer_same_dim(n, a, b, "broadcast sizes");
    }
    dim *size = a_many ? a : b_many ? b : dim_select(dim_eq(a, one), b, a);
    dim *other = a_many ? b : b_many ? a : b;
    dim *stretched = dim_select(dim_eq(other, one), size, other);
    if (dim_equal(stretched, size) != TRI_YES) add_check(n, stretched, size, "broadcast sizes");
    return size;
}

int infer_broadcast(const node *n, int first, int last, dim **dims) {
    int rank = 0;
    for (int i = first; i <= last; i++) {
        if (!infer_has_rank(n, i)) return RANK_UNKNOWN;
        if (infer_in(n, i)->rank > rank) rank = infer_in(n, i)->rank;
    }
    for (int k = 0; k < rank; k++) dims[k] = infer_k(n, 1);
    for (int i = first; i <= last; i++) {
        const type *t = infer_in(n, i);
        for (int k = 0; k < t->rank; k++) {
            int axis = rank - t->rank + k;
            dims[axis] = infer_broadcast_dim(n, dims[axis], t->dims[k], axis);
        }
    }
    return rank;
}

void infer_broadcast_into(const node *n, int i, int rank, dim *const *dims, const char *what) {
    int own = infer_rank(n, i);
    const type *t = infer_in(n, i);
    if (own > rank) infer_error(n, "%s has rank %d; at most %d is supported", what, own, rank);
    for (int j = 0; j < own; j++) {
        dim *to = dims[rank - own + j];
        infer_same_dim(n, infer_broadcast_dim(n, to, t->dims[j], rank - own + j), to,
                       arena_printf(infer_arena(n), "%s broadcast", what));
    }
}

// ---- The standard's type constraints

static uint64_t type_bit(const type *t) {
    if (t->kind == TYPE_TENSOR) return SCHEMA_TENSOR(t->elem);
    if (t->kind == TYPE_SEQUENCE && t->item->kind == TYPE_TENSOR) return SCHEMA_SEQ(t->item->elem);
    return SCHEMA_OTHER;
}

static const char *set_text(arena *a, uint64_t types) {
    text t = {.arena = a};
    for (int bit = 0; bit < 64; bit++) {
        if (!(types >> bit & 1)) continue;
        const char *elem = bit == 63 ? "other kinds" : dtype_name(dtype_from_onnx(bit % 32));
        const char *form = bit < 32 || bit == 63 ? "%s%s" : "%sseq(%s)";
        if (bit == 63 || dtype_from_onnx(bit % 32) != DT_NONE) text_printf(&t, form, t.n ? ", " : "", elem);
    }
    return text_str(&t);
}

// Types without their shape, as messages about element types want them.
static const char *kind_text(const node *n, const type *t) {
    return t->kind == TYPE_TENSOR ? dtype_name(t->elem) : type_text(infer_arena(n), t);
}

typedef struct binding {
    uint64_t bit; // the type a variable stands for, 0: not yet known
    int from;     // the input that said so
} binding;

static uint64_t allowed_types(const schema_version *s, const schema_param *p) {
    return p->type_var >= 0 ? s->type_vars[p->type_var].types : p->fixed_types;
}

// Whether an actual parameter has the type of its type variable.
static bool binds(const schema_param *p) { return p->type_var >= 0 && (p->option != 'v' || p->homogeneous); }

static void check_input(const node *n, const schema_version *s, int i, binding *bound) {
    const schema_param *p = formal(s->in, s->nin, i);
    const value *v = node_in(n, i);
    if (!p || !v) return;
    uint64_t allowed = allowed_types(s, p), bit = type_bit(&v->type);
    if (n->given && !(allowed & bit))
        infer_error(n, "%s is %s; allowed: %s", label(n, false, i), kind_text(n, &v->type),
                    set_text(infer_arena(n), allowed));
    if (!binds(p)) return;
    binding *b = &bound[p->type_var];
    if (b->bit && b->bit != bit)
        infer_error(n, "%s is %s, but %s is %s; both must have the same type (%s)", label(n, false, i),
                    kind_text(n, &v->type), label(n, false, b->from),
                    kind_text(n, &node_in(n, b->from)->type), s->type_vars[p->type_var].name);
    if (!b->bit) *b = (binding){bit, i};
}

static void check_inputs(const node *n, const schema_version *s, binding *bound) {
    module *m = n->graph->module;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i] && n->in[i]->type.kind == TYPE_NONE)
            diag_defect(m->diag, n->loc, "%s has no type when the node is inferred", label(n, false, i));
    for (int i = 0; s && i < n->nin; i++) check_input(n, s, i, bound);
}

static void check_output(const node *n, const schema_version *s, int i, const binding *bound) {
    const schema_param *p = formal(s->out, s->nout, i);
    const value *v = node_out(n, i);
    if (!p || !v) return;
    uint64_t allowed = allowed_types(s, p), bit = type_bit(&v->type);
    if (n->given && !(allowed & bit))
        infer_error(n, "%s would be %s; allowed: %s", label(n, true, i), kind_text(n, &v->type),
                    set_text(infer_arena(n), allowed));
    if (!binds(p)) return;
    const binding *b = &bound[p->type_var];
    if (b->bit && b->bit != bit && bit != SCHEMA_OTHER && b->bit != SCHEMA_OTHER)
        diag_defect(n->graph->module->diag, n->loc, "%s was inferred as %s, but has the type of %s",
                    label(n, true, i), kind_text(n, &v->type), label(n, false, b->from));
}

// The element type of output i that the constraints determine; DT_NONE if they leave a choice.
static dtype constrained_elem(const schema_version *s, int i, const binding *bound) {
    const schema_param *p = s ? formal(s->out, s->nout, i) : NULL;
    if (!p) return DT_NONE;
    uint64_t types = allowed_types(s, p);
    if (p->type_var >= 0 && bound[p->type_var].bit) types = bound[p->type_var].bit;
    for (int t = 1; t < DT_COUNT; t++)
        if (types == SCHEMA_TENSOR(t)) return (dtype)t;
    return DT_NONE;
}

// ---- One node

// Runs the operator's inference or decomposition; false if it stopped at an unknown rank.
static bool run(node *n, struct infer_state *s, void (*step)(node *n)) {
    if (!step) diag_defect(n->graph->module->diag, n->loc, "%s has no shape inference", n->op->name);
    jmp_buf here, *outer = s->leave;
    s->leave = &here;
    bool volatile finished = false;
    if (setjmp(here) == 0) {
        step(n);
        finished = true;
    }
    s->leave = outer;
    return finished;
}

// An output that the operator could not infer because a rank is unknown.
static void set_unknown(node *n, int i, const schema_version *s, const binding *bound, const type *declared) {
    dtype elem = constrained_elem(s, i, bound);
    if (elem == DT_NONE && declared->kind == TYPE_TENSOR) elem = declared->elem;
    if (elem == DT_NONE)
        diag_fatal_missing(n->graph->module->diag, n->loc,
                           "the type of %s, which depends on a tensor of unknown rank, is not supported",
                           label(n, true, i));
    infer_set_unknown(n, i, elem);
}

static bool same_kind(const type *a, const type *b) {
    if (a->kind != b->kind || a->elem != b->elem) return false;
    return !a->item || !b->item || same_kind(a->item, b->item);
}

// Uses a declared shape where inference found no rank. Its named sizes become opaque: nothing ties them to
// those of an input.
static void take_declared(node *n, value *v, const type *declared) {
    arena *a = infer_arena(n);
    dim **sizes = ARENA_ARRAY(a, dim *, declared->rank + 1);
    for (int i = 0; i < declared->rank; i++) {
        dim *d = declared->dims[i];
        sizes[i] = dim_is_const(d) ? d : infer_unknown_dim(n, d->name ? d->name : "d", d);
    }
    v->type = type_tensor(a, v->type.elem, declared->rank, sizes);
}

// A wrong shape is harmless: exporters declare some, and users change the sizes of inputs only. But callers will have read
// the one of an output: hence a warning there.
static void report_declared(const node *n, int out, const type *declared) {
    const value *v = n->out[out];
    arena *a = infer_arena(n);
    bool is_output = false;
    for (int i = 0; i < v->graph->outputs.n; i++) is_output |= v->graph->outputs.at[i] == v;
    const char *text = arena_printf(a, "%s is declared as %s, but is %s; the declaration is ignored",
                                    label(n, true, out), type_text(a, declared), type_text(a, &v->type));
    if (is_output) diag_warning(n->graph->module->diag, WARN_DECLARED_TYPE, n->loc, "%s", text);
    else diag_remark(n->graph->module->diag, n->loc, "%s", text);
}

// Exporters that trace a model declare how many results one run had: that says nothing of other runs.
static void refine(node *n, int out, const type *declared, bool first) {
    value *v = n->out[out];
    type *t = &v->type;
    if (t->kind != TYPE_TENSOR || declared->rank == RANK_UNKNOWN) return;
    if (t->rank == RANK_UNKNOWN) {
        if (!n->op->sink_into) take_declared(n, v, declared);
        return;
    }
    bool differs = t->rank != declared->rank;
    for (int i = 0; !differs && i < t->rank; i++)
        differs = dim_is_const(declared->dims[i]) && dim_equal(t->dims[i], declared->dims[i]) == TRI_NO;
    arena *a = infer_arena(n);
    if (differs && first) report_declared(n, out, declared);
    if (differs) return;
    dim *sizes[MAX_RANK];
    for (int i = 0; i < t->rank; i++) {
        sizes[i] = t->dims[i];
        if (sizes[i]->kind != DIM_OPAQUE || sizes[i]->is_count || !dim_is_const(declared->dims[i])) continue;
        sizes[i] = infer_same_dim(n, sizes[i], declared->dims[i], "declared size");
    }
    *t = type_tensor(a, t->elem, t->rank, sizes);
}

// Remembers the declared type of v when v is inferred for the first time.
static bool keep_declared(struct infer_state *s, arena *a, const value *v) {
    if (map_get_number(&s->inferred, (uint64_t)v->id)) return false;
    type *kept = ARENA_NEW(a, type);
    *kept = v->type;
    map_put_number(&s->inferred, (uint64_t)v->id, kept);
    return true;
}

static void merge_declared(node *n, int out, const type *declared, bool first) {
    value *v = n->out[out];
    if (declared->kind == TYPE_NONE) return;
    arena *a = infer_arena(n);
    if (same_kind(declared, &v->type)) refine(n, out, declared, first);
    else if (first)
        infer_error(n, "%s is declared as %s, but is %s", label(n, true, out), type_text(a, declared),
                    type_text(a, &v->type));
}

// The minimum size in bytes of a tensor of type t; -1: more than any machine can address.
static int64_t least_bytes(const type *t) {
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i]->min <= 0) return 0;
    for (int i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(count, t->dims[i]->min, &count)) return -1;
    int64_t bytes = dtype_size(t->elem, count);
    return bytes > MOST_BYTES ? -1 : bytes;
}

static void check_size(const graph *g, const loc *at, const char *what, const type *t) {
    if (t->kind != TYPE_TENSOR || t->rank == RANK_UNKNOWN || least_bytes(t) >= 0) return;
    diag_fatal(g->module->diag, at, "%s is %s: more than 2^47 bytes, more than any machine has", what,
               type_text(g->module->arena, t));
}

bool infer_attempt(const node *n, void (*step)(void *user), void *user, const diag_message **why) {
    struct infer_state *s = state_of(n);
    jmp_buf *leave = s->leave;
    int opaques = s->opaques;
    bool returned = diag_attempt(n->graph->module->diag, step, user, why);
    s->leave = leave, s->opaques = opaques;
    return returned;
}

const type *infer_declared(const value *v) {
    const struct infer_state *s = v->graph->module->infer;
    const type *kept = s ? map_get_number(&s->inferred, (uint64_t)v->id) : NULL;
    return kept ? kept : &v->type;
}

// A size that the model computes in any case is not negative: its symbol has a lower bound, which is checked
// at entry, and sizes computed from it need no case for negative ones.
static void bound_symbols(const node *n) {
    for (int i = 0; i < n->nout && !n->graph->outer; i++) {
        const value *v = n->out[i];
        if (!v || v->type.kind != TYPE_TENSOR || !value_uses(v)) continue;
        for (int j = 0; j < v->type.rank; j++) dim_require(v->type.dims[j], 0);
    }
}

void infer_node(node *n) {
    struct infer_state *state = state_of(n);
    const schema_version *s = newest(n->op);
    arena *a = infer_arena(n);
    binding *bound = ARENA_ARRAY(a, binding, s ? s->nvars + 1 : 1);
    check_inputs(n, s, bound);
    type *declared = ARENA_ARRAY(a, type, n->nout + 1);
    bool *first = ARENA_ARRAY(a, bool, n->nout + 1);
    for (int i = 0; i < n->nout; i++) {
        if (!n->out[i]) continue;
        first[i] = keep_declared(state, a, n->out[i]);
        declared[i] = *infer_declared(n->out[i]);
        n->out[i]->type = (type){0};
        n->out[i]->contents = NULL;
        n->out[i]->ncontents = 0;
    }
    int opaques = state->opaques;
    state->opaques = 0;
    bool finished = run(n, state, n->op->infer);
    for (int i = 0; i < n->nout; i++) {
        if (!n->out[i]) continue;
        if (n->out[i]->type.kind == TYPE_NONE && !finished) set_unknown(n, i, s, bound, &declared[i]);
        if (n->out[i]->type.kind == TYPE_NONE)
            diag_defect(n->graph->module->diag, n->loc, "%s was left without a type", label(n, true, i));
        if (s) check_output(n, s, i, bound);
        merge_declared(n, i, &declared[i], first[i]);
        check_size(n->graph, n->loc, label(n, true, i), &n->out[i]->type);
    }
    state->opaques = opaques;
    bound_symbols(n);
}

static void decompose(node *n) {
    const schema_version *s = newest(n->op);
    check_inputs(n, s, ARENA_ARRAY(infer_arena(n), binding, s ? s->nvars + 1 : 1));
    if (!run(n, state_of(n), n->op->decompose))
        diag_fatal_missing(n->graph->module->diag, n->loc,
                           "operator %s is not supported with inputs of unknown rank", n->op->name);
    node_delete(n);
}

// ---- Nodes that take others into themselves

typedef struct hiding_search {
    const graph *g;
    node *found;
} hiding_search;

static void see_hiding(void *user, value *v) {
    hiding_search *s = user;
    node *d = v->def;
    if (!d || d->graph != s->g || !d->op->has_hidden_rank || !d->op->has_hidden_rank(d, v->def_index)) return;
    if (!s->found || node_place(d) < node_place(s->found)) s->found = d;
}

// The first node of n's graph that hides a rank or length that n may need.
static node *hiding_node(const node *n) {
    hiding_search s = {.g = n->graph};
    node_reads(n, see_hiding, &s);
    return s.found;
}

static void count_read(void *user, value *v) {
    (void)v;
    ++*(int64_t *)user;
}

static bool gives_graph_output(const value *v) {
    for (int i = 0; i < v->graph->outputs.n; i++)
        if (v->graph->outputs.at[i] == v) return true;
    return false;
}

// Whether inferring the outputs from `first` on again tells more.
static bool gives_more(const node *n, int first) {
    for (int i = first; i < n->nout; i++)
        if (n->out[i] && (!n->op->has_hidden_rank(n, i) || gives_graph_output(n->out[i]))) return true;
    return false;
}

// After giver has absorbed n: *next is the node where inference continues; giver itself if it must be
// inferred again.
static bool absorb(node *absorber, node *n, node **next) {
    struct infer_state *s = state_of(n);
    int first = absorber->nout;
    *next = node_next(n);
    if (s->absorbed > ABSORBED_MOST)
        diag_fatal_missing(n->graph->module->diag, n->loc,
                           "too many lengths that only the run knows decide ranks up to here: declare shapes "
                           "of earlier values");
    node_reads(n, count_read, &s->absorbed);
    if (!absorber->op->sink_into(absorber, n)) return false;
    if (!gives_more(absorber, first) && !hiding_node(absorber)) return true;
    node_reads(absorber, count_read, &s->absorbed);
    *next = absorber;
    return true;
}

void infer_from(graph *g, int place) { infer_until(g, place, NULL); }

// A value that its giver hides has no type before the nodes that read it are absorbed.
static bool inputs_have_types(const node *n) {
    for (int i = 0; i < n->nin; i++)
        if (n->in[i] && n->in[i]->type.kind == TYPE_NONE) return false;
    return true;
}

static bool canonicalise(node *n) {
    return n->op->canonicalise && inputs_have_types(n) && n->op->canonicalise(n);
}

void infer_until(graph *g, int place, const node *end) {
    for (int i = place; i < g->nodes.n && g->nodes.at[i] != end; i++) {
        node *n = g->nodes.at[i], *absorber, *next;
        if (canonicalise(n)) i--;
        else if ((absorber = hiding_node(n)) && absorb(absorber, n, &next))
            i = (next ? node_place(next) : g->nodes.n) - 1;
        else if (n->op->decompose) decompose(n), i--;
        else if (infer_node(n), canonicalise(n)) i--;
    }
}

void infer_graph(graph *g) {
    for (int i = 0; i < g->inputs.n; i++) {
        const value *v = g->inputs.at[i];
        check_size(g, NULL, arena_printf(g->module->arena, "input '%s'", v->name), &v->type);
    }
    infer_from(g, 0);
}
