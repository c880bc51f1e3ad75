// Parses the expressions of kernels (grammar: ir/kernel/kernel_text.h). In: any text. Out: trees first,
// because the types of states may follow; then expressions exactly as written, without folding. Errors are
// fatal and have their line.
#include "ir/kernel/kernel_text.h"
#include <stdlib.h>
#include <string.h>

struct tree {
    expr_op op;
    const char *at; // for messages
    dtype type;     // of X_CONST (DT_NONE: from the context), or the target of X_CAST, X_ROUND_TO, X_BITCAST
    bool is_float, saturate;
    int number; // of an axis, a state, a message
    bool is_let;
    expr *built; // of a let, when the stage is built
    double f;
    int64_t i;
    dim *dim;
    buffer *buffer;
    tree *arg[3], **index, *guard, *fill;
};

static tree *tree_new(program_reader *r, expr_op op) {
    tree *t = ARENA_NEW(r->p->arena, tree);
    t->op = op;
    reader_skip(&r->in);
    t->at = r->in.s;
    return t;
}

// ---------------------------------------------------------------- parsing
static dtype parse_dtype(program_reader *r) {
    const char *name = reader_name(&r->in);
    dtype t = dtype_from_name(name);
    if (t == DT_NONE) reader_fail(&r->in, "'%s' is not an element type", name);
    return t;
}

static bool at_number(reader *in) {
    reader_skip(in);
    const char *s = in->s + (*in->s == '-');
    size_t n = bare_name_length(s);
    bool word = n == 3 && (!strncmp(s, "nan", n) || !strncmp(s, "inf", n));
    return word || (*s >= '0' && *s <= '9');
}

static tree *parse_number(program_reader *r) {
    tree *t = tree_new(r, X_CONST);
    t->is_float = reader_at_float(&r->in);
    if (t->is_float) t->f = reader_double(&r->in);
    else t->i = reader_int(&r->in);
    return t;
}

static tree *parse_dim_value(program_reader *r) {
    tree *t = tree_new(r, X_DIM);
    reader_expect(&r->in, "{");
    t->dim = reader_dim(&r->in);
    reader_expect(&r->in, "}");
    return t;
}

static tree *parse_let_name(program_reader *r) {
    const char *at = r->in.s;
    reader_expect(&r->in, "$");
    int64_t n = reader_int(&r->in);
    if (n < 0 || n >= r->lets.n) reader_fail_at(&r->in, at, "$%lld is not defined here", (long long)n);
    return r->lets.at[n];
}

void parse_let(program_reader *r) {
    if (reader_int(&r->in) != r->lets.n) reader_fail(&r->in, "$%d is the next one", r->lets.n);
    reader_expect(&r->in, "=");
    tree *t = parse_expr(r);
    if (t->is_let) reader_fail(&r->in, "'let' cannot be nested");
    t->is_let = true;
    VEC_PUSH(r->p->arena, &r->lets, t);
}

void build_lets(program_reader *r) {
    for (int j = 0; j < r->lets.n; j++) r->lets.at[j]->built = build_expr(r, r->lets.at[j], DT_NONE);
}

static tree *parse_read(program_reader *r) {
    tree *t = tree_new(r, X_READ);
    t->buffer = parse_buffer_name(r);
    t->index = parse_index(r, t->buffer);
    if (!reader_accept_word(&r->in, "if")) return t;
    t->guard = parse_expr(r);
    reader_expect_word(&r->in, "else");
    t->fill = parse_expr(r);
    return t;
}

// The number in a name that is `word` and digits; -1: it is something else.
static int number_after(const char *name, const char *word) {
    size_t n = strlen(word), digits = strspn(name + n * !strncmp(name, word, n), "0123456789");
    if (strncmp(name, word, n) || !digits || digits > 6 || name[n + digits]) return -1;
    return atoi(name + n);
}

static tree *parse_word(program_reader *r) {
    tree *t = tree_new(r, X_AXIS);
    const char *name = reader_name(&r->in);
    t->number = (int)(intptr_t)map_get(&r->axes, name) - 1;
    if (t->number >= 0) return t;
    t->op = number_after(name, "s") >= 0 ? X_STATE : X_OTHER;
    t->number = number_after(name, t->op == X_STATE ? "s" : "other");
    if (t->number < 0) reader_fail_at(&r->in, t->at, "'%s' is not an axis of this kernel", name);
    return t;
}

// After "(": two operands with an infix operator.
static tree *parse_infix(program_reader *r) {
    tree *t = tree_new(r, X_ADD);
    t->arg[0] = parse_expr(r);
    reader_skip(&r->in);
    int longest = 0;
    for (int op = 0; op < X_COUNT; op++) {
        const char *word = expr_op_infix(op);
        if (!word || strncmp(r->in.s, word, strlen(word)) || (int)strlen(word) <= longest) continue;
        longest = (int)strlen(word), t->op = op;
    }
    if (!longest) reader_fail(&r->in, "expected an operation");
    r->in.s += longest;
    t->arg[1] = parse_expr(r);
    reader_expect(&r->in, ")");
    return t;
}

static bool parse_saturate(program_reader *r) {
    if (!reader_accept(&r->in, ",")) return false;
    reader_expect_word(&r->in, "saturate");
    return true;
}

static int parse_message(program_reader *r) {
    kernel *k = r->k;
    reader_expect(&r->in, ",");
    return kernel_message(k, reader_string(&r->in), NULL);
}

static expr_op op_of_name(const char *name) {
    for (int op = 0; op < X_COUNT; op++)
        if (expr_arity(op) && op != X_CAST && !strcmp(expr_op_name(op), name)) return op;
    return X_COUNT;
}

static tree *parse_call(program_reader *r) {
    tree *t = tree_new(r, X_CAST);
    const char *name = reader_name(&r->in);
    expr_op op = op_of_name(name);
    if (op != X_COUNT) t->op = op;
    else t->type = dtype_from_name(name);
    if (op == X_COUNT && t->type == DT_NONE)
        reader_fail_at(&r->in, t->at, "'%s' is neither an operation nor an element type", name);
    reader_expect(&r->in, "(");
    for (int j = 0; j < expr_arity(t->op); j++) {
        if (j) reader_expect(&r->in, ",");
        t->arg[j] = parse_expr(r);
    }
    if (op == X_ROUND_TO || op == X_BITCAST) {
        reader_expect(&r->in, ",");
        t->type = parse_dtype(r);
    }
    if (op == X_ROUND_TO || op == X_COUNT) t->saturate = parse_saturate(r);
    if (op == X_CHECK) t->number = parse_message(r);
    reader_expect(&r->in, ")");
    if (op != X_COUNT || t->arg[0]->op != X_CONST || t->arg[0]->is_let) return t;
    t->arg[0]->type = t->type; // a number with its type
    return t->arg[0];
}

tree *parse_expr(program_reader *r) {
    reader *in = &r->in;
    reader_enter(in);
    tree *t;
    reader_skip(in);
    const char *after = in->s + bare_name_length(in->s);
    if (*in->s == '"' || (after > in->s && *after == '[')) t = parse_read(r);
    else if (at_number(in)) t = parse_number(r);
    else if (*in->s == '{') t = parse_dim_value(r);
    else if (*in->s == '$') t = parse_let_name(r);
    else if (after > in->s) t = *after == '(' ? parse_call(r) : parse_word(r);
    else if (reader_accept(in, "(")) t = parse_infix(r);
    else reader_fail(in, "expected an expression");
    in->depth--;
    return t;
}

tree **parse_index(program_reader *r, const buffer *b) {
    tree **index = ARENA_ARRAY(r->p->arena, tree *, b->rank + 1);
    reader_expect(&r->in, "[");
    for (int j = 0; j < b->rank; j++) {
        if (j) reader_expect(&r->in, ",");
        index[j] = parse_expr(r);
    }
    if (!reader_accept(&r->in, "]")) reader_fail(&r->in, "'%s' has rank %d", b->name, b->rank);
    return index;
}

// ---------------------------------------------------------------- building
_Noreturn static void fail_type(const program_reader *r, const tree *t, dtype got, dtype want) {
    reader_fail_at(&r->in, t->at, "expected %s, got %s", dtype_name(want), dtype_name(got));
}

static bool is_computed(dtype t) {
    return t != DT_NONE && dtype_compute(t) == t && (dtype_is_float(t) || dtype_is_int(t) || t == DT_BOOL);
}

static expr *build_const(program_reader *r, const tree *t, dtype want) {
    dtype own = t->type != DT_NONE ? t->type : want != DT_NONE ? want : number_type(t->is_float);
    if (!is_computed(own)) reader_fail_at(&r->in, t->at, "kernels cannot compute in %s", dtype_name(own));
    expr e = {.op = X_CONST, .dtype = own};
    if (dtype_is_float(own)) e.f = t->is_float ? t->f : (double)t->i;
    else e.i = t->i;
    if (own == DT_F32) e.f = (float)e.f;
    int64_t least = own == DT_BOOL ? 0 : dtype_int_min(own), most = own == DT_BOOL ? 1 : dtype_int_max(own);
    bool fits = dtype_is_float(own) || own == DT_U64 || (t->i >= least && t->i <= most);
    if (!fits || (t->is_float && !dtype_is_float(own)))
        reader_fail_at(&r->in, t->at, "the number is not of type %s", dtype_name(own));
    return x_as_written(r->k, &e);
}

static expr *build_state(program_reader *r, const tree *t) {
    const stage *s = r->stage;
    if (t->number >= s->states.n) reader_fail_at(&r->in, t->at, "the stage has %d states", s->states.n);
    return x_as_written(r->k,
                        &(expr){.op = t->op, .dtype = s->states.at[t->number].dtype, .axis = t->number});
}

static expr *build_read(program_reader *r, const tree *t) {
    expr e = {.op = X_READ, .dtype = dtype_compute(t->buffer->dtype), .buffer = t->buffer};
    e.index = ARENA_ARRAY(r->p->arena, expr *, t->buffer->rank + 1);
    for (int j = 0; j < t->buffer->rank; j++) e.index[j] = build_expr(r, t->index[j], DT_I64);
    if (t->guard) e.guard = build_expr(r, t->guard, DT_BOOL), e.fill = build_expr(r, t->fill, e.dtype);
    return x_as_written(r->k, &e);
}

// The type of t regardless of context; DT_NONE: it contains only untyped numbers.
static dtype own_type(const program_reader *r, const tree *t) {
    if (t->built) return t->built->dtype;
    if (t->op == X_AXIS || t->op == X_DIM) return DT_I64;
    if (t->op == X_READ) return dtype_compute(t->buffer->dtype);
    if (t->op == X_STATE || t->op == X_OTHER)
        return t->number < r->stage->states.n ? r->stage->states.at[t->number].dtype : DT_NONE;
    if (t->op == X_CONST || t->op == X_BITCAST) return t->type;
    if (t->op == X_CAST) return dtype_compute(t->type);
    if (!expr_keeps_type(t->op)) return DT_BOOL;
    dtype own = DT_NONE;
    int first = t->op == X_SELECT, end = t->op == X_CHECK ? 1 : expr_arity(t->op);
    for (int j = first; j < end && own == DT_NONE; j++) own = own_type(r, t->arg[j]);
    return own;
}

static bool takes(expr_op op, dtype t) {
    switch (expr_op_class(op)) {
    case XC_FUNCTION:
    case XC_ROUND:
    case XC_TEST: return dtype_is_float(t);
    case XC_INTEGER: return dtype_is_int(t);
    case XC_BITS: return op == X_SHL || op == X_SHR ? dtype_is_int(t) : !dtype_is_float(t);
    case XC_LEAF:
    case XC_CONVERT:
    case XC_ARITHMETIC:
    case XC_COMPARE:
    case XC_SELECT:
    case XC_CHECK: break;
    }
    return true;
}

static void check_to(const program_reader *r, const tree *t, dtype from) {
    bool numeric = dtype_is_float(t->type) || dtype_is_int(t->type) || t->type == DT_BOOL;
    if (!numeric) reader_fail_at(&r->in, t->at, "kernels cannot compute in %s", dtype_name(t->type));
    bool same_width = is_computed(t->type) && dtype_bits(t->type) == dtype_bits(from);
    if (t->op == X_BITCAST && !same_width)
        reader_fail_at(&r->in, t->at, "bitcast of %s to %s", dtype_name(from), dtype_name(t->type));
}

static expr *build_operation(program_reader *r, const tree *t, dtype want) {
    expr e = {.op = t->op, .axis = t->number};
    bool keeps = expr_keeps_type(t->op), compares = expr_op_class(t->op) == XC_COMPARE;
    dtype own = keeps && want != DT_NONE ? want : keeps ? own_type(r, t) : DT_NONE;
    for (int j = 0; compares && j < 2 && own == DT_NONE; j++) own = own_type(r, t->arg[j]);
    for (int j = 0; j < expr_arity(t->op); j++) {
        bool condition = (t->op == X_SELECT && j == 0) || (t->op == X_CHECK && j == 1);
        e.arg[j] = build_expr(r, t->arg[j], condition ? DT_BOOL : own);
        if (own == DT_NONE && !condition) own = e.arg[j]->dtype;
    }
    if (!takes(t->op, own)) reader_fail_at(&r->in, t->at, "%s of %s", expr_op_name(t->op), dtype_name(own));
    e.dtype = keeps ? own : DT_BOOL;
    if (t->op == X_CHECK) e.message = r->k->messages.at[t->number];
    if (t->type == DT_NONE) return x_as_written(r->k, &e);
    check_to(r, t, own);
    if (t->op == X_CAST) e.dtype = dtype_compute(t->type);
    if (t->op == X_BITCAST) e.dtype = t->type;
    else e.to = t->type, e.saturate = t->saturate || !cast_may_saturate(t->type);
    return x_as_written(r->k, &e);
}

static expr *build_tree(program_reader *r, const tree *t, dtype want) {
    switch (t->op) {
    case X_CONST: return build_const(r, t, want);
    case X_AXIS: return x_as_written(r->k, &(expr){.op = X_AXIS, .dtype = DT_I64, .axis = t->number});
    case X_DIM: return x_dim(r->k, t->dim);
    case X_STATE:
    case X_OTHER: return build_state(r, t);
    case X_READ: return build_read(r, t);
    case X_COUNT:
#define LEAF(...)
#define OP(op, ...) case op:
#include "ir/kernel/expr_ops.def"
        break;
    }
    return build_operation(r, t, want);
}

expr *build_expr(program_reader *r, const tree *t, dtype want) {
    expr *e = t->built ? t->built : build_tree(r, t, want);
    if (want != DT_NONE && e->dtype != want) fail_type(r, t, e->dtype, want);
    return e;
}
