// Sequences: their length is known only at run time, so they are handles, made and inspected by library
// functions (runtime-lite/lib/lib_value.h). Tensors are copied in and out.
#include "ir/ops/control/sequence.h"
#include "ir/ops/branches.h"
#include "ir/ops/control/control.h"
#include "ir/ops/runtime_args.h"
#include "ir/ops/value.h"
#include <string.h>

// ---------------------------------------------------------------- types
static dim *any_size(const node *n) { return dim_opaque_named(infer_dims(n), "?item"); }

static bool generalise_shape(const node *n, type *t, const type *given) {
    bool changed = false;
    if (given->rank == RANK_ANY || t->rank == RANK_UNKNOWN) return false;
    if (t->rank == RANK_ANY) {
        *t = *given;
        return true;
    }
    if (t->rank != given->rank) {
        *t = (type){.kind = TYPE_TENSOR, .elem = t->elem, .rank = RANK_UNKNOWN};
        return true;
    }
    type own = type_tensor(infer_arena(n), t->elem, t->rank, t->dims);
    for (int j = 0; j < t->rank; j++) {
        if (t->dims[j] == given->dims[j] || t->dims[j] == any_size(n)) continue;
        own.dims[j] = any_size(n);
        changed = true;
    }
    *t = own;
    return changed;
}

bool sequence_generalise(const node *n, type *t, const type *given) {
    if (t->kind == TYPE_TENSOR) return generalise_shape(n, t, given);
    if (!t->item || !given->item) return false;
    if (t->item->kind != given->item->kind || t->item->elem != given->item->elem)
        infer_error(n, "%s and %s do not match", type_text(infer_arena(n), t),
                    type_text(infer_arena(n), given));
    type *item = ARENA_NEW(infer_arena(n), type);
    *item = *t->item;
    t->item = item;
    return sequence_generalise(n, item, given->item);
}

static const type *sequence_in(const node *n, int i) {
    const value *v = node_in(n, i);
    if (!v || v->type.kind != TYPE_SEQUENCE || !v->type.item || v->type.item->kind != TYPE_TENSOR)
        infer_error(n, "input %d must be a sequence of tensors", i);
    return &v->type;
}

static void set_sequence(node *n, int out, const type *item) {
    if (!node_out(n, out)) return;
    type *own = ARENA_NEW(infer_arena(n), type);
    *own = *item;
    n->out[out]->type = (type){.kind = TYPE_SEQUENCE, .item = own};
}

type value_item(const node *n, const type *item) {
    type t = *item;
    if (t.kind != TYPE_TENSOR) return t;
    if (t.rank < 0) return (type){.kind = TYPE_TENSOR, .elem = t.elem, .rank = RANK_UNKNOWN};
    t = type_tensor(infer_arena(n), t.elem, t.rank, t.dims);
    for (int j = 0; j < t.rank; j++) {
        dim *own = infer_unknown_dim(n, "item", NULL);
        if (!dim_is_const(t.dims[j])) t.dims[j] = own;
    }
    return t;
}

static void infer_position(const node *n, int i) {
    if (!node_in(n, i)) return;
    const type *t = infer_in(n, i);
    int64_t sizes[MAX_RANK], count;
    if (t->elem != DT_I32 && t->elem != DT_I64)
        infer_error(n, "the position is %s, not an int32 or int64", type_text(infer_arena(n), t));
    if (infer_static(t, INT64_MAX, sizes, &count) && count != 1)
        infer_error(n, "the position must be a scalar, not %s", type_text(infer_arena(n), t));
}

// ---------------------------------------------------------------- handles
static buffer *new_handle(lowering *l, const node *n, const char *suffix) {
    return lower_temp(l, n, suffix, DT_I64, 0, NULL);
}

// A constant number for the library: a dtype, size or flag.
static dim *number(const lowering *l, int64_t v) { return dim_const(l->program->dims, v); }

buffer *value_from_tensor(lowering *l, const node *n, value *v, const char *suffix) {
    buffer *from = lower_buffer(l, v);
    if (v->type.rank < 0) return from;
    buffer *handle = new_handle(l, n, suffix);
    step *s = lower_library(l, n, "value_new", 1, 2, 2 + from->rank);
    s->args[0] = handle, s->args[1] = from;
    // The buffer holds handles of strings, but the library expects the element type string.
    s->numbers[0] = number(l, v->type.elem), s->numbers[1] = number(l, from->rank);
    for (int j = 0; j < from->rank; j++) s->numbers[2 + j] = from->dims[j];
    return handle;
}

static void set_messages(lowering *l, step *s, int count, const char *first, const char *second) {
    const char **m = ARENA_ARRAY(l->program->arena, const char *, 2);
    m[0] = first, m[1] = second;
    s->messages = m, s->nmessages = count;
}

// Sets t's sizes from dims.
static void bind_sizes(lowering *l, const node *n, const type *t, buffer *dims) {
    for (int j = 0; j < t->rank; j++) {
        dim *d = t->dims[j];
        if (dim_is_const(d)) continue;
        if (d->kind == DIM_OPAQUE) {
            lower_set_dim(l, n, d, dims, j);
            continue;
        }
        dim *own = dim_opaque(l->program->dims, "size", 0, INT64_MAX);
        lower_set_dim(l, n, own, dims, j);
        lower_check(l, n, dim_eq(own, d), "a tensor does not have its declared size");
    }
}

static buffer *dims_buffer(lowering *l, const node *n, const char *suffix, int rank) {
    dim *size = number(l, rank ? rank : 1);
    return lower_temp(l, n, arena_printf(l->program->arena, "%s.dims", suffix), DT_I64, 1, &size);
}

void value_sizes(lowering *l, const node *n, buffer *handle, const type *t, const char *suffix,
                 const char *wrong) {
    arena *a = l->program->arena;
    buffer *dims = dims_buffer(l, n, suffix, t->rank);
    step *s = lower_library(l, n, "value_dims", 1, 2, 2 + t->rank);
    s->args[0] = dims, s->args[1] = handle;
    s->numbers[0] = number(l, t->elem), s->numbers[1] = number(l, t->rank);
    for (int j = 0; j < t->rank; j++)
        s->numbers[2 + j] = dim_is_const(t->dims[j]) ? t->dims[j] : number(l, -1);
    if (!wrong) wrong = arena_printf(a, "an item is not %s", type_text(a, t));
    set_messages(l, s, 2, "an optional is empty", wrong);
    bind_sizes(l, n, t, dims);
}

void value_fetch(lowering *l, const node *n, buffer *handle, buffer *out) {
    lower_call(l, n, "value_read", 1, BUFFERS(out, handle), NULL, 0);
}

static const char *const position_messages[] = {"the position is outside the sequence"};

// A call that fails if the position (NULL: the end) is outside the sequence.
static void call_at(lowering *l, const node *n, const char *function, buffer *const *args, int nargs,
                    const buffer *position) {
    dims *table = l->program->dims;
    if (position)
        lower_check(l, n, dim_eq(dim_product(table, position->dims, position->rank), dim_const(table, 1)),
                    "the position must be a scalar");
    step *s =
        lower_call(l, n, function, 1, args, nargs, DIMS(number(l, position ? position->dtype : DT_I64)));
    s->messages = position_messages, s->nmessages = 1;
}

static buffer *item_at(lowering *l, const node *n, buffer *sequence, buffer *position, const char *suffix) {
    buffer *item = new_handle(l, n, suffix);
    call_at(l, n, "sequence_at", BUFFERS(item, sequence, position), position);
    return item;
}

static void new_sequence(lowering *l, const node *n, buffer *out, int count, buffer *const *items) {
    step *s = lower_library(l, n, "sequence_new", 1, 1 + count, 1);
    s->args[0] = out;
    if (count) memcpy(s->args + 1, items, (size_t)count * sizeof *items);
    s->numbers[0] = number(l, count);
}

// ---------------------------------------------------------------- SequenceEmpty, SequenceConstruct
static void empty_infer(node *n) {
    dtype elem = dtype_from_onnx((int)node_int(n, "dtype", DT_F32));
    if (elem == DT_NONE)
        infer_error(n, "attribute 'dtype' is %lld, which is not an element type",
                    (long long)node_int(n, "dtype", 0));
    set_sequence(n, 0, &(type){.kind = TYPE_TENSOR, .elem = elem, .rank = RANK_ANY});
}

static void empty_lower(lowering *l, node *n) { new_sequence(l, n, lower_out(l, n, 0), 0, NULL); }

OPERATOR(SequenceEmpty, .infer = empty_infer, .lower = empty_lower);

static void construct_infer(node *n) {
    type item = *infer_in(n, 0);
    for (int i = 1; i < n->nin; i++) sequence_generalise(n, &item, infer_in(n, i));
    set_sequence(n, 0, &item);
}

static void construct_lower(lowering *l, node *n) {
    buffer **items = ARENA_ARRAY(l->program->arena, buffer *, n->nin + 1);
    for (int i = 0; i < n->nin; i++)
        items[i] = value_from_tensor(l, n, n->in[i], arena_printf(l->program->arena, "item%d", i));
    new_sequence(l, n, lower_out(l, n, 0), n->nin, items);
}

OPERATOR(SequenceConstruct, .infer = construct_infer, .lower = construct_lower, .takes_any_rank = true);

// ---------------------------------------------------------------- SequenceInsert, SequenceErase
static void insert_infer(node *n);
static void erase_infer(node *n);

enum { HOPS_MOST = 64 };

// The length of a sequence made by the nodes before it; -1: unknown.
static int64_t length_of(const value *v) {
    int64_t change = 0;
    for (int hops = 0; v->def && hops < HOPS_MOST; hops++) {
        const node *d = v->def;
        if (d->op->infer == construct_infer) return change + d->nin;
        if (d->op->infer == empty_infer) return change;
        if (d->op->infer == insert_infer) change++;
        else if (d->op->infer == erase_infer) change--;
        else return -1;
        v = d->in[0];
    }
    return -1;
}

// Reports a constant position, input i, outside of the sequence. past: number of positions after the last item.
static void check_position(const node *n, int i, int past) {
    int count;
    dim **at = infer_contents(n, i, &count);
    int64_t length = length_of(n->in[0]);
    if (!at || count != 1 || !dim_is_const(at[0]) || length < 0) return;
    if (dim_value(at[0]) < -length || dim_value(at[0]) >= length + past)
        infer_error(n, "position %lld is out of range for a sequence of %lld items",
                    (long long)dim_value(at[0]), (long long)length);
}

static void insert_infer(node *n) {
    type t = *sequence_in(n, 0), item = *infer_in(n, 1);
    if (t.item->elem != item.elem)
        infer_error(n, "%s cannot be inserted into %s", type_text(infer_arena(n), &item),
                    type_text(infer_arena(n), &t));
    infer_position(n, 2);
    check_position(n, 2, 1);
    sequence_generalise(n, &t, &(type){.kind = TYPE_SEQUENCE, .item = &item});
    set_sequence(n, 0, t.item);
}

static void insert_lower(lowering *l, node *n) {
    buffer *sequence = lower_in(l, n, 0), *item = value_from_tensor(l, n, n->in[1], "item");
    buffer *position = lower_in(l, n, 2);
    call_at(l, n, "sequence_insert", BUFFERS(lower_out(l, n, 0), sequence, item, position), position);
}

OPERATOR(SequenceInsert, .infer = insert_infer, .lower = insert_lower, .takes_any_rank = true);

static void erase_infer(node *n) {
    infer_position(n, 1);
    check_position(n, 1, 0);
    set_sequence(n, 0, sequence_in(n, 0)->item);
}

static void erase_lower(lowering *l, node *n) {
    buffer *sequence = lower_in(l, n, 0), *position = lower_in(l, n, 1);
    call_at(l, n, "sequence_erase", BUFFERS(lower_out(l, n, 0), sequence, position), position);
}

OPERATOR(SequenceErase, .infer = erase_infer, .lower = erase_lower);

// ---------------------------------------------------------------- SequenceAt, SequenceLength
static void at_infer(node *n) {
    infer_position(n, 1);
    check_position(n, 1, 0);
    type t = value_item(n, sequence_in(n, 0)->item);
    if (t.rank == RANK_UNKNOWN) infer_set_unknown(n, 0, t.elem);
    else infer_set(n, 0, t.elem, t.rank, t.dims);
}

static void at_lower(lowering *l, node *n) {
    buffer *sequence = lower_in(l, n, 0), *item = item_at(l, n, sequence, lower_in(l, n, 1), "item");
    value_to_output(l, n, item);
}

void value_to_output(lowering *l, node *n, buffer *handle) {
    const type *t = &n->out[0]->type;
    if (t->rank < 0) {
        kernel *k = lower_kernel(l, n, NULL);
        stage_write(k, kernel_stage(k), lower_handle_out(l, n, 0), NULL, x_read(k, handle, NULL));
        return;
    }
    value_sizes(l, n, handle, t, "item", NULL);
    lower_checks(l, n);
    value_fetch(l, n, handle, lower_out(l, n, 0));
}

OPERATOR(SequenceAt, .canonicalise = branch_on_item_rank, .infer = at_infer, .lower = at_lower,
         .takes_any_rank = true);

static void length_infer(node *n) {
    sequence_in(n, 0);
    infer_set(n, 0, DT_I64, 0, NULL);
}

static void length_lower(lowering *l, node *n) {
    buffer *sequence = lower_in(l, n, 0);
    lower_call(l, n, "sequence_length", 1, BUFFERS(lower_out(l, n, 0), sequence), NULL, 0);
}

OPERATOR(SequenceLength, .infer = length_infer, .lower = length_lower);

// ---------------------------------------------------------------- SplitToSequence
// Reports constant sizes that do not add up to the size of the axis, or a constant size of equal parts below 1.
static void check_split(const node *n, dim *size) {
    int count;
    dim **parts = infer_contents(n, 1, &count), *sum = infer_k(n, 0);
    if (!parts) return;
    for (int i = 0; i < count; i++) sum = dim_add(sum, parts[i]);
    if (infer_in(n, 1)->rank == 0 && sum->max < 1)
        infer_error(n, "the size of the parts is %s; it must be positive", dim_text(infer_arena(n), sum));
    if (infer_in(n, 1)->rank == 1 && dim_equal(sum, size) == TRI_NO)
        infer_error(n, "the sizes add up to %s, but the axis has size %s", dim_text(infer_arena(n), sum),
                    dim_text(infer_arena(n), size));
    for (int i = 0; i < count; i++)
        if (parts[i]->max < 0) infer_error(n, "size %s is negative", dim_text(infer_arena(n), parts[i]));
}

// The size of all parts, where they are known to have the same: torch's exporter splits by a list of ones whose
// length it leaves to the run.
static dim *part_size(const node *n) {
    if (!node_in(n, 1)) return infer_k(n, 1);
    int count;
    dim **parts = infer_contents(n, 1, &count);
    const node *def = node_in(n, 1)->def;
    const attr *fill = def && def->op == op_find("", "ConstantOfShape") ? node_attr(def, "value") : NULL;
    bool list = infer_in(n, 1)->rank == 1;
    if (list && !parts && fill && constant_int(fill->tensor, 0) >= 0)
        return infer_k(n, constant_int(fill->tensor, 0));
    for (int i = 1; parts && i < count; i++)
        if (parts[i] != parts[0]) return any_size(n);
    bool known = parts && count && dim_is_const(parts[0]) && (list || dim_is(parts[0], 1));
    return known ? parts[0] : any_size(n);
}

static void split_infer(node *n) {
    const type *in = infer_in(n, 0);
    int rank = infer_rank(n, 0), axis = node_axis(n, 0, rank), out = 0;
    dim *dims[MAX_RANK];
    if (node_in(n, 1) && infer_rank(n, 1) > 1) infer_error(n, "the sizes must be a scalar or a list");
    bool squeeze = !node_in(n, 1) && !node_int(n, "keepdims", 1);
    if (node_in(n, 1)) check_split(n, in->dims[axis]);
    for (int j = 0; j < rank; j++)
        if (j != axis || !squeeze) dims[out++] = j != axis ? in->dims[j] : part_size(n);
    type item = type_tensor(infer_arena(n), in->elem, out, dims);
    set_sequence(n, 0, &item);
}

static void split_lower(lowering *l, node *n) {
    buffer *x = lower_in(l, n, 0), *sizes = lower_in(l, n, 1);
    step *s = lower_library(l, n, "sequence_split", 1, 3, 6 + x->rank);
    s->args[0] = lower_out(l, n, 0), s->args[1] = x, s->args[2] = sizes;
    dim *numbers[] = {number(l, n->in[0]->type.elem),
                      number(l, sizes ? sizes->dtype : DT_I64),
                      sizes && sizes->rank ? sizes->dims[0] : number(l, -1),
                      number(l, node_int(n, "keepdims", 1) != 0),
                      number(l, node_axis(n, 0, x->rank)),
                      number(l, x->rank)};
    memcpy(s->numbers, numbers, sizeof numbers);
    for (int j = 0; j < x->rank; j++) s->numbers[6 + j] = x->dims[j];
    set_messages(l, s, 1, "the sizes do not add up to the size of the axis", NULL);
}

OPERATOR(SplitToSequence, .infer = split_infer, .lower = split_lower);

// ---------------------------------------------------------------- ConcatFromSequence
static void concat_infer(node *n) {
    const type *item = sequence_in(n, 0)->item;
    bool fresh = node_flag(n, "new_axis", 0);
    if (item->rank < 0) {
        infer_set_unknown(n, 0, item->elem);
        return;
    }
    int rank = item->rank + fresh, axis = node_axis(n, 0, rank);
    dim *dims[MAX_RANK + 1];
    for (int j = 0; j < rank; j++) {
        dim *own = infer_unknown_dim(n, "concat", NULL),
            *size = j == axis ? own : item->dims[j - (fresh && j > axis)];
        dims[j] = dim_is_const(size) ? size : own;
    }
    infer_set(n, 0, item->elem, rank, dims);
}

static const char *const concat_messages[] = {"the sequence is empty",
                                              "the shapes of the sequence's tensors do not match"};

// For an unknown rank.
static void join_lower(lowering *l, node *n, buffer *sequence, bool fresh) {
    step *s = lower_call(l, n, "sequence_join", 1, BUFFERS(lower_handle_out(l, n, 0), sequence),
                         DIMS(number(l, node_int(n, "axis", 0)), number(l, fresh)));
    s->messages = concat_messages, s->nmessages = 2;
}

static void concat_lower(lowering *l, node *n) {
    buffer *sequence = lower_in(l, n, 0);
    const type *t = &n->out[0]->type;
    bool fresh = node_int(n, "new_axis", 0) != 0;
    if (t->rank < 0) {
        join_lower(l, n, sequence, fresh);
        return;
    }
    int axis = node_axis(n, 0, t->rank);
    buffer *dims = dims_buffer(l, n, "concat", t->rank);
    step *s = lower_call(l, n, "sequence_dims", 1, BUFFERS(dims, sequence),
                         DIMS(number(l, t->elem), number(l, axis), number(l, fresh), number(l, t->rank)));
    s->messages = concat_messages, s->nmessages = 2;
    for (int j = 0; j < t->rank; j++) {
        if (!dim_is_const(t->dims[j])) continue;
        dim *own = dim_opaque(l->program->dims, "size", 0, INT64_MAX);
        lower_set_dim(l, n, own, dims, j);
        lower_check(l, n, dim_eq(own, t->dims[j]), "the result does not have its declared size");
    }
    bind_sizes(l, n, t, dims);
    lower_checks(l, n);
    buffer *out = lower_out(l, n, 0);
    lower_call(l, n, "sequence_concat", 1, BUFFERS(out, sequence), DIMS(number(l, axis)));
}

OPERATOR(ConcatFromSequence, .canonicalise = branch_on_item_rank, .infer = concat_infer,
         .lower = concat_lower, .takes_any_rank = true);

// ---------------------------------------------------------------- SequenceMap
static graph *map_body(const node *n) {
    graph *g = node_graph(n, "body");
    if (!g) infer_error(n, "attribute body is missing");
    if (g->inputs.n != n->nin || g->outputs.n < n->nout)
        infer_error(n, "the body has %d inputs and %d outputs, the node %d and %d", g->inputs.n, g->outputs.n,
                    n->nin, n->nout);
    return g;
}

// If the sequence does not determine the rank of its items, the body's declaration may.
static type body_item(const node *n, int i, const type *declared) {
    const type *item = sequence_in(n, i)->item;
    bool says = item->rank < 0 && declared->kind == TYPE_TENSOR && declared->elem == item->elem &&
                declared->rank >= 0;
    return value_item(n, says ? declared : item);
}

static void map_infer(node *n) {
    graph *g = map_body(n);
    sequence_in(n, 0);
    for (int i = 0; i < n->nin; i++) {
        if (!n->in[i]) infer_error(n, "input %d is missing", i);
        const type *t = &n->in[i]->type;
        g->inputs.at[i]->type = t->kind == TYPE_SEQUENCE ? body_item(n, i, &g->inputs.at[i]->type) : *t;
        if (t->kind == TYPE_SEQUENCE)
            branch_on_value_rank(g->inputs.at[i], n->loc, g->nodes.n ? g->nodes.at[0] : NULL);
    }
    infer_graph(g);
    for (int i = 0; i < n->nout; i++) set_sequence(n, i, &g->outputs.at[i]->type);
}

// Input i of the body: an item, or the tensor itself.
static void map_input(lowering *l, node *n, graph *g, int i, buffer *position) {
    value *v = g->inputs.at[i];
    arena *a = l->program->arena;
    buffer *from = lower_buffer(l, n->in[i]);
    if (n->in[i]->type.kind != TYPE_SEQUENCE) {
        map_value(l, v, from);
        return;
    }
    buffer *item = item_at(l, n, from, position, arena_printf(a, "item%d", i));
    if (v->type.rank < 0) {
        map_value(l, v, item);
        return;
    }
    value_sizes(l, n, item, &v->type, arena_printf(a, "item%d", i), NULL);
    buffer *to = lower_temp(l, n, arena_printf(a, "in%d", i), v->type.elem, v->type.rank, v->type.dims);
    value_fetch(l, n, item, to);
    map_value(l, v, to);
}

// for i < length: outputs = body(items i);  append them to the sequences
static void map_lower(lowering *l, node *n) {
    graph *g = map_body(n);
    arena *a = l->program->arena;
    buffer *first = lower_in(l, n, 0), *length = new_handle(l, n, "length");
    for (int i = 0; i < n->nin; i++) lower_buffer(l, n->in[i]);
    buffer **out = ARENA_ARRAY(a, buffer *, n->nout + 1);
    for (int i = 0; i < n->nout; i++) {
        out[i] = node_out(n, i) ? lower_out(l, n, i) : new_handle(l, n, arena_printf(a, "out%d", i));
        new_sequence(l, n, out[i], 0, NULL);
    }
    lower_call(l, n, "sequence_length", 1, BUFFERS(length, first), NULL, 0);
    dim *count = dim_opaque(l->program->dims, "length", 0, INT64_MAX);
    dim *iteration = dim_opaque(l->program->dims, "item", 0, INT64_MAX);
    lower_set_dim(l, n, count, length, 0);
    region *outside = open_loop(l, n, iteration, count, NULL);
    buffer *position = new_handle(l, n, "position");
    kernel *k = lower_kernel(l, n, "position");
    stage_write(k, kernel_stage(k), position, NULL, x_dim(k, iteration));
    for (int i = 0; i < n->nin; i++) map_input(l, n, g, i, position);
    lower_graph(l, g);
    for (int i = 0; i < n->nout; i++) {
        buffer *item = value_from_tensor(l, n, g->outputs.at[i], arena_printf(a, "made%d", i));
        buffer *longer = new_handle(l, n, arena_printf(a, "longer%d", i));
        call_at(l, n, "sequence_insert", BUFFERS(longer, out[i], item, NULL), NULL);
        step_between(l, n, STEP_COPY, out[i], longer);
    }
    close_loop(l, outside);
}

OPERATOR(SequenceMap, .infer = map_infer, .lower = map_lower, .takes_any_rank = true);
