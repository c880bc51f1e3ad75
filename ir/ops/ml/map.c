// Maps: handles of two lists, keys in ascending order and values (runtime-lite/lib/lib_value.h). If the
// result of a ZipMap is an output of the model, callers get its input instead, as a table whose columns are
// labelled with the keys (lower.c uses op_def.map_keys).
#include "ir/ops/runtime_args.h"
#include "ir/ops/text/string.h"
#include "ir/ops/value.h"

// The non-empty list in one of the two attributes.
static constant *keys_of(const node *n, const char *strings, const char *ints) {
    const attr *s = node_attr(n, strings), *i = node_attr(n, ints);
    bool has_strings = s && s->n, has_ints = i && i->n;
    if (has_strings == has_ints)
        infer_error(n, has_ints ? "attributes %s and %s are both given" : "neither %s nor %s is given",
                    strings, ints);
    if (has_strings) return strings_constant(infer_arena(n), s->strings, NULL, s->n);
    return int64s_constant(infer_arena(n), i->ints, i->n);
}

static void set_maps(node *n, int out, dtype key, dtype elem) {
    if (!node_out(n, out)) return;
    type *value = ARENA_NEW(infer_arena(n), type), *map = ARENA_NEW(infer_arena(n), type);
    *value = (type){.kind = TYPE_TENSOR, .elem = elem};
    *map = (type){.kind = TYPE_MAP, .elem = key, .item = value};
    n->out[out]->type = (type){.kind = TYPE_SEQUENCE, .item = map};
}

// ---------------------------------------------------------------- ZipMap
static const constant *zip_keys(const node *n) {
    return keys_of(n, "classlabels_strings", "classlabels_int64s");
}

static void zip_infer(node *n) {
    const type *x = infer_in(n, 0);
    const constant *labels = zip_keys(n);
    set_maps(n, 0, labels->elem, x->elem);
    if (!infer_has_rank(n, 0)) return;
    if (x->rank != 1 && x->rank != 2)
        infer_error(n, "X is %s; it must be a matrix, or one row", type_text(infer_arena(n), x));
    dim *columns = x->dims[x->rank - 1];
    if (dim_equal(columns, infer_k(n, labels->count)) == TRI_NO)
        infer_error(n, "X is %s: there are %lld labels for %s columns", type_text(infer_arena(n), x),
                    (long long)labels->count, dim_text(infer_arena(n), columns));
    infer_same_dim(n, columns, infer_k(n, labels->count), "columns and labels");
}

// Maps are built only if they are read: by other nodes, or as the result of a region.
static void zip_lower(lowering *l, node *n) {
    arena *a = l->program->arena;
    const value *z = n->out[0];
    bool is_read = false;
    for (int j = 0; j < z->uses.n; j++) is_read |= z->uses.at[j].node || z->uses.at[j].graph->outer;
    if (!is_read) return;
    const constant *labels = zip_keys(n);
    int64_t *columns = ARENA_ARRAY(a, int64_t, labels->count + 1), count = sort_keys(labels, columns);
    buffer *x = lower_in(l, n, 0);
    const char *name = arena_printf(a, "%s.keys", z->name);
    buffer *out = lower_out(l, n, 0),
           *keys = lower_constant(l, name, pick_constant(a, labels, columns, count));
    name = arena_printf(a, "%s.columns", z->name);
    buffer *places = lower_constant(l, name, int64s_constant(a, columns, count));
    lower_call(l, n, "map_rows", 1, BUFFERS(out, x, keys, places),
               DIMS(infer_k(n, x->dtype), x->rank == 2 ? x->dims[0] : infer_k(n, 1), x->dims[x->rank - 1],
                    infer_k(n, labels->elem), infer_k(n, count)));
}

OPERATOR_OF("ai.onnx.ml", ZipMap, .infer = zip_infer, .lower = zip_lower, .map_keys = zip_keys);

// ---------------------------------------------------------------- entries of a map
static const type *map_in(const node *n) {
    const type *t = &n->in[0]->type;
    if (t->kind != TYPE_MAP || t->item->kind != TYPE_TENSOR)
        infer_error(n, "X is %s; it must be a map", type_text(infer_arena(n), t));
    return t;
}

// Keys (part 0) or values (part 1), of type t, as a list of `count` elements; count is set from the values.
static buffer *map_list(lowering *l, node *n, int part, dtype t, dim *count) {
    arena *a = l->program->arena;
    const char *name = part ? "values" : "keys";
    buffer *handle = lower_temp(l, n, arena_printf(a, "%s.handle", name), DT_I64, 0, NULL);
    buffer *map = lower_in(l, n, 0);
    lower_call(l, n, "map_part", 1, BUFFERS(handle, map), DIMS(infer_k(n, part)));
    type list = type_tensor(a, t, 1, &count), held = lower_type(&list);
    if (part) value_sizes(l, n, handle, &list, name, NULL);
    buffer *out = lower_temp(l, n, name, held.elem, 1, &count);
    value_fetch(l, n, handle, out);
    return out;
}

static dim *new_count(lowering *l) { return dim_opaque(l->program->dims, "entries", 0, INT64_MAX); }

// out[.., i] = places[i] < 0 ? other : list[places[i]]; list[i] if places is NULL
static void pick_entries(lowering *l, node *n, buffer *list, buffer *places, buffer *other) {
    buffer *out = lower_out(l, n, 0);
    kernel *k;
    expr *index[MAX_RANK];
    stage *s = suffixed_stage(l, n, "pick", out, &k, index);
    expr *at = index[out->rank - 1], *y;
    if (places) {
        expr *place = x_read(k, places, &at), *known = x_bin(k, X_LE, x_i64(k, 0), place);
        y = x_read_guarded(k, list, &place, known, other ? x_read_first(k, other) : NULL);
    } else {
        y = x_read(k, list, &at);
    }
    stage_write(k, s, out, index, y);
}

// ---------------------------------------------------------------- CastMap
static dtype cast_target(const node *n) {
    static const dtype types[] = {DT_F32, DT_I64, DT_STRING};
    return types[node_choice(n, "cast_to", "TO_FLOAT TO_INT64 TO_STRING")];
}

static bool cast_is_sparse(const node *n) { return node_choice(n, "map_form", "DENSE SPARSE") == 1; }

static void cast_infer(node *n) {
    const type *t = map_in(n);
    int64_t length = node_int(n, "max_map", 1);
    if (t->elem != DT_I64 || (t->item->elem != DT_F32 && t->item->elem != DT_STRING))
        infer_error(n, "X is %s; allowed: map(int64, float), map(int64, string)",
                    type_text(infer_arena(n), t));
    if (cast_is_sparse(n) && length < 1)
        infer_error(n, "attribute max_map is %lld; it must be positive", (long long)length);
    dim *sizes[] = {infer_k(n, 1),
                    cast_is_sparse(n) ? infer_k(n, length) : infer_data_dim(n, "entries", NULL)};
    infer_set(n, 0, cast_target(n), 2, sizes);
}

// The values in the requested type. Numbers are printed with six decimals, as by ONNX Runtime.
static buffer *cast_values(lowering *l, node *n, buffer *values, dtype from, dtype to) {
    static const char *const message[] = {"a string is not a number"};
    if (from == to) return values;
    type held = lower_type(&(type){.kind = TYPE_TENSOR, .elem = to});
    buffer *out = lower_temp(l, n, "cast", held.elem, 1, values->dims);
    if (from != DT_STRING && to != DT_STRING) {
        kernel *k;
        expr *index[MAX_RANK];
        stage *s = suffixed_stage(l, n, "cast", out, &k, index);
        stage_write(k, s, out, index, x_cast(k, x_read(k, values, index), to, true));
        return out;
    }
    bool parses = from == DT_STRING;
    step *s = lower_library(l, n, parses ? "string_parse" : "string_print", 1, 2, parses ? 2 : 3);
    s->args[0] = out, s->args[1] = values;
    s->numbers[0] = values->dims[0], s->numbers[1] = infer_k(n, parses ? to : from);
    if (parses) s->messages = message, s->nmessages = 1;
    else s->numbers[2] = infer_k(n, 0);
    return out;
}

// 0, 1 .. count - 1
static buffer *number_list(lowering *l, node *n, dim *count) {
    buffer *out = lower_temp(l, n, "numbers", DT_I64, 1, &count);
    kernel *k;
    expr *index[MAX_RANK];
    stage *s = suffixed_stage(l, n, "numbers", out, &k, index);
    stage_write(k, s, out, index, index[0]);
    return out;
}

static buffer *checked_keys(lowering *l, node *n, buffer *keys) {
    buffer *out = lower_temp(l, n, "checked", DT_I64, 1, keys->dims);
    kernel *k;
    expr *index[MAX_RANK];
    stage *s = suffixed_stage(l, n, "check", out, &k, index);
    expr *key = x_checked_index(k, x_read(k, keys, index), infer_k(n, INT64_MAX), false, "a key is negative");
    stage_write(k, s, out, index, key);
    return out;
}

// Keys of max_map or more are dropped, as by ONNX Runtime.
static void cast_lower(lowering *l, node *n) {
    const type *t = map_in(n);
    bool sparse = cast_is_sparse(n);
    dtype to = cast_target(n);
    dim *count = sparse ? new_count(l) : infer_made_dim(n, 0);
    buffer *values = map_list(l, n, 1, t->item->elem, count), *places = NULL, *other = NULL;
    lower_checks(l, n);
    buffer *list = cast_values(l, n, values, t->item->elem, to);
    if (sparse) {
        buffer *keys = checked_keys(l, n, map_list(l, n, 0, DT_I64, count));
        places = lower_find_in(l, n, DT_I64, number_list(l, n, n->out[0]->type.dims[1]), keys);
    }
    if (sparse && to == DT_STRING) {
        static const char *const nothing[] = {"0.f"};
        other = lower_constant(l, arena_printf(l->program->arena, "%s.nothing", n->out[0]->name),
                               strings_constant(l->program->arena, nothing, NULL, 1));
    }
    pick_entries(l, n, list, places, other);
}

OPERATOR_OF("ai.onnx.ml", CastMap, .infer = cast_infer, .lower = cast_lower);

// ---------------------------------------------------------------- DictVectorizer
static constant *vocabulary(const node *n) { return keys_of(n, "string_vocabulary", "int64_vocabulary"); }

// The output is a list in the standard's text, but a matrix of one row in ONNX Runtime: the declared shape
// decides, by default the row.
static void dict_infer(node *n) {
    static const struct {
        dtype key, value;
    } allowed[] = {{DT_STRING, DT_I64}, {DT_I64, DT_STRING}, {DT_I64, DT_F32},
                   {DT_I64, DT_F64},    {DT_STRING, DT_F32}, {DT_STRING, DT_F64}};
    const type *t = map_in(n);
    const constant *keys = vocabulary(n);
    bool known = false;
    for (size_t j = 0; j < sizeof allowed / sizeof *allowed; j++)
        known |= t->elem == allowed[j].key && t->item->elem == allowed[j].value;
    if (!known)
        infer_error(n, "X is %s, which is not one of the operator's map types", type_text(infer_arena(n), t));
    if (keys->elem != t->elem)
        infer_error(n, "X is %s, but the vocabulary is %s", type_text(infer_arena(n), t),
                    dtype_name(keys->elem));
    const type *declared = n->out[0] ? infer_declared(n->out[0]) : NULL;
    bool list = declared && declared->kind == TYPE_TENSOR && declared->rank == 1;
    dim *sizes[] = {infer_k(n, 1), infer_k(n, keys->count)};
    infer_set(n, 0, t->item->elem, list ? 1 : 2, list ? sizes + 1 : sizes);
}

// Keys that are not in the vocabulary are ignored, as by ONNX Runtime.
static void dict_lower(lowering *l, node *n) {
    const type *t = map_in(n);
    dim *count = new_count(l);
    buffer *wanted =
        lower_constant(l, arena_printf(l->program->arena, "%s.vocabulary", n->out[0]->name), vocabulary(n));
    buffer *values = map_list(l, n, 1, t->item->elem, count), *keys = map_list(l, n, 0, t->elem, count);
    pick_entries(l, n, values, lower_find_in(l, n, t->elem, wanted, keys), NULL);
}

OPERATOR_OF("ai.onnx.ml", DictVectorizer, .infer = dict_infer, .lower = dict_lower);
