// Parses programs (grammar: ir/kernel/kernel_text.h; "//" starts a comment line). In: any text. Out: a
// verified program, or a fatal error with its line. Constants without data are filled: floats and bytes count
// 1 to 7 (floats in eighths), others are 0.
#include "ir/kernel/kernel_text.h"
#include "ir/kernel/library.h"
#include <string.h>

// ---------------------------------------------------------------- buffers
// References to buffers that may be declared later.
typedef struct late_name {
    const buffer **to;
    const char *name, *at;
} late_name;
typedef struct buffer_names {
    VEC(late_name) late;
    VEC(int) states; // by output
} buffer_names;

static void parse_late(program_reader *r, buffer_names *n, const char *word, const buffer **to) {
    if (!reader_accept_word(&r->in, word)) return;
    const char *at = r->in.s;
    VEC_PUSH(r->p->arena, &n->late, (late_name){to, reader_name(&r->in), at});
}

static void find_late(program_reader *r, const buffer_names *n) {
    for (int j = 0; j < n->late.n; j++) {
        const late_name *l = &n->late.at[j];
        *l->to = map_get(&r->buffers, l->name);
        if (!*l->to) reader_fail_at(&r->in, l->at, "there is no buffer '%s'", l->name);
    }
}

static void parse_view(program_reader *r, buffer *b) {
    if (!reader_accept(&r->in, "view of ")) return;
    buffer *of = b->view_of = parse_buffer_name(r);
    if (of == b || of->role != b->role) reader_fail(&r->in, "a view must have the role of its buffer");
    if (reader_accept(&r->in, "+")) b->view_offset = reader_int(&r->in);
    if (b->view_offset < 0) reader_fail(&r->in, "a view must begin within its buffer");
    b->data = of->data, b->io = of->io;
}

static const constant *fill_constant(program_reader *r, const type *t) {
    int64_t count = reader_count(&r->in, t), dims[MAX_RANK] = {0};
    if (t->elem == DT_STRING) reader_fail(&r->in, "constants of strings need their data");
    for (int j = 0; j < t->rank; j++) dims[j] = dim_value(t->dims[j]);
    constant *c = constant_new(r->p->arena, t->elem, t->rank, dims);
    for (int64_t i = 0; i < count; i++) {
        if (dtype_is_float(t->elem))
            dtype_store_float(t->elem, (void *)c->data, i, (double)(i % 7 + 1) / 8, true);
        else if (dtype_bits(t->elem) <= 8 && t->elem != DT_BOOL)
            dtype_store_int(t->elem, (void *)c->data, i, i % 7 + 1);
    }
    return c;
}

static const constant *parse_contents(program_reader *r, const type *t) {
    reader_skip(&r->in);
    return *r->in.s && *r->in.s != '\n' ? reader_data(&r->in, t) : fill_constant(r, t);
}

static int parse_state_input(program_reader *r) {
    if (!reader_accept_word(&r->in, "in")) return 0;
    const buffer *b = parse_buffer_name(r);
    for (int j = 0; j < r->p->inputs.n; j++)
        if (r->p->inputs.at[j] == b) return j + 1;
    reader_fail(&r->in, "'%s' is not an input", b->name);
}

static void add_to_interface(program_reader *r, buffer_names *n, buffer *b) {
    program *p = r->p;
    if (b->view_of) return;
    if (b->role == BUF_INPUT) {
        b->io = p->inputs.n;
        VEC_PUSH(p->arena, &p->inputs, b);
    } else if (b->role == BUF_OUTPUT) {
        b->io = p->outputs.n;
        VEC_PUSH(p->arena, &p->outputs, b);
        VEC_PUSH(p->arena, &n->states, parse_state_input(r));
    }
}

static void parse_program_buffer(program_reader *r, buffer_names *n, buffer_role role) {
    buffer *b = parse_buffer(r, role);
    parse_view(r, b);
    if (reader_accept_word(&r->in, "at")) b->offset = reader_dim(&r->in);
    parse_late(r, n, "or", &b->caller);
    parse_late(r, n, "else", (const buffer **)&b->fallback);
    add_to_interface(r, n, b);
    if (reader_accept_word(&r->in, "holds")) b->holds = reader_new_type(&r->in);
    if (reader_accept_word(&r->in, "labels")) b->labels = reader_constant(&r->in);
    type t = {.kind = TYPE_TENSOR, .elem = b->dtype, .rank = b->rank, .dims = b->dims};
    if (role == BUF_CONST && !b->view_of) b->data = parse_contents(r, &t);
}

static void parse_buffers(program_reader *r) {
    buffer_names n = {0};
    for (int role; (role = parse_choice(r, role_words, BUF_LOCAL)) >= 0; next_line(r))
        parse_program_buffer(r, &n, role);
    find_late(r, &n);
    bool any = false;
    for (int j = 0; j < n.states.n; j++) any |= n.states.at[j] != 0;
    if (any) r->p->state = n.states.at;
    if (!reader_accept(&r->in, "workspace ")) return;
    r->p->workspace = reader_dim(&r->in);
    next_line(r);
}

// ---------------------------------------------------------------- steps
static void parse_region(program_reader *r, region *to, int indent);

static region *parse_body(program_reader *r, int indent) {
    region *body = ARENA_NEW(r->p->arena, region);
    reader_enter(&r->in);
    parse_region(r, body, indent + 2);
    r->in.depth--;
    return body;
}

// name "[" integer "]"; false: a dim follows, which has no brackets.
static bool parse_element(program_reader *r, step *s) {
    reader_skip(&r->in);
    const char *at = r->in.s;
    if (*at != '"' && !bare_name_length(at)) return false;
    reader_name(&r->in);
    bool found = *r->in.s == '[';
    r->in.s = at;
    if (!found) return false;
    s->buffer = parse_buffer_name(r);
    reader_expect(&r->in, "[");
    s->index = reader_int(&r->in);
    reader_expect(&r->in, "]");
    dim *n = buffer_count(s->buffer);
    if (s->index < 0 || (dim_is_const(n) && s->index >= dim_value(n)))
        reader_fail_at(&r->in, at, "'%s' has no element %lld", s->buffer->name, (long long)s->index);
    return true;
}

static void parse_condition(program_reader *r, step *s, bool or_dim) {
    const char *at = r->in.s;
    bool element = parse_element(r, s);
    if (element && (s->buffer->dtype != DT_BOOL || s->index))
        reader_fail_at(&r->in, at, "expected element 0 of a bool");
    if (!element && !or_dim) reader_fail_at(&r->in, at, "expected an element");
    if (!element) s->dim = reader_dim(&r->in);
}

static dim *parse_target(program_reader *r) {
    program *p = r->p;
    const char *at = r->in.s;
    dim *d = reader_dim(&r->in);
    if (d->kind != DIM_OPAQUE) reader_fail_at(&r->in, at, "expected the name of a dim with '?'");
    for (int j = 0; j < p->variables.n; j++)
        if (p->variables.at[j] == d) return d;
    VEC_PUSH(p->arena, &p->variables, d);
    return d;
}

static void parse_set_dim(program_reader *r, step *s) {
    s->target = parse_target(r);
    reader_expect(&r->in, ":=");
    if (!parse_element(r, s)) s->dim = reader_dim(&r->in);
    else if (!dtype_is_int(s->buffer->dtype)) reader_fail(&r->in, "expected an integer");
}

static buffer *parse_memory(program_reader *r, bool heap) {
    buffer *b = parse_buffer_name(r);
    if (heap && b->role != BUF_HEAP) reader_fail(&r->in, "'%s' is not on the heap", b->name);
    return b;
}

static void parse_two(program_reader *r, step *s) {
    s->buffer = parse_memory(r, s->kind != STEP_COPY);
    if (s->kind != STEP_COPY && s->kind != STEP_MOVE) return;
    reader_expect(&r->in, "=");
    s->from = parse_memory(r, s->kind == STEP_MOVE);
    if (s->buffer->rank != s->from->rank || s->buffer->dtype != s->from->dtype)
        reader_fail(&r->in, "the types differ");
}

// The name of a C function.
static const char *parse_symbol(reader *in) {
    const char *s = reader_name(in);
    size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
    if (!n || s[n] || (*s >= '0' && *s <= '9')) reader_fail(in, "'%s' is not a C identifier", s);
    return s;
}

static void parse_call(program_reader *r, step *s) {
    reader *in = &r->in;
    VEC(buffer *) args = {0};
    VEC(dim *) numbers = {0};
    VEC(const char *) messages = {0};
    s->lib = reader_name(in);
    if (strcmp(s->lib, "custom") == 0) s->symbol = parse_symbol(in);
    else if (!library_find(s->lib)) reader_fail(in, "there is no library function '%s'", s->lib);
    reader_expect(in, "(");
    for (int part = 0; part < 2; part++) {
        for (bool more = false; !reader_accept(in, ";"); more = true) {
            if (more) reader_expect(in, ",");
            VEC_PUSH(r->p->arena, &args, reader_accept_word(in, "_") ? NULL : parse_buffer_name(r));
        }
        if (!part) s->nwritten = args.n;
    }
    while (!reader_accept(in, ")")) {
        if (numbers.n) reader_expect(in, ",");
        VEC_PUSH(r->p->arena, &numbers, reader_dim(in));
    }
    if (reader_accept_word(in, "messages")) do
            VEC_PUSH(r->p->arena, &messages, reader_string(in));
        while (reader_accept(in, ","));
    s->args = args.at, s->nargs = args.n;
    s->numbers = numbers.at, s->nnumbers = numbers.n;
    s->messages = messages.at, s->nmessages = messages.n;
}

static void parse_loop(program_reader *r, step *s) {
    s->target = parse_target(r);
    if (reader_accept(&r->in, "<")) s->dim = reader_dim(&r->in);
    if (reader_accept_word(&r->in, "while")) parse_condition(r, s, false);
}

static void parse_check(program_reader *r, step *s) {
    s->dim = reader_dim(&r->in);
    reader_expect(&r->in, ":");
    s->message = reader_string(&r->in);
}

static void parse_step(program_reader *r, region *to) {
    int indent = r->indent, word = *r->in.s == '?' ? STEP_SET_DIM : parse_choice(r, step_words, STEP_LIB + 1);
    if (word < 0) reader_fail(&r->in, "expected a step of the program");
    step *s = step_new(r->p, to, word, NULL);
    switch (s->kind) {
    case STEP_KERNEL:
        s->kernel = parse_kernel(r);
        s->loc = s->kernel->loc;
        return;
    case STEP_CHECK: parse_check(r, s); break;
    case STEP_SET_DIM: parse_set_dim(r, s); break;
    case STEP_ALLOC:
    case STEP_FREE:
    case STEP_COPY:
    case STEP_MOVE: parse_two(r, s); break;
    case STEP_IF: parse_condition(r, s, true); break;
    case STEP_LOOP: parse_loop(r, s); break;
    case STEP_LIB: parse_call(r, s); break;
    }
    next_line(r);
    if (s->kind == STEP_IF || s->kind == STEP_LOOP) s->body[0] = parse_body(r, indent);
    if (s->kind != STEP_IF) return;
    bool other = r->indent == indent && reader_accept_word(&r->in, "else");
    if (other) next_line(r);
    s->body[1] = other ? parse_body(r, indent) : ARENA_NEW(r->p->arena, region);
}

static void parse_region(program_reader *r, region *to, int indent) {
    while (r->indent == indent && strncmp(r->in.s, "else", 4)) parse_step(r, to);
    if (r->indent > indent) fail_column(r);
}

// ---------------------------------------------------------------- programs
static void check_program(void *user, diag *d) {
    program *p = user;
    diag *was = p->diag;
    p->diag = d;
    program_verify(p);
    p->diag = was;
}

program *program_parse(arena *a, diag *d, const char *file, const char *text) {
    module *m = module_new(a, d, file);
    program_reader r = {.in = {.m = m, .start = text, .s = text, .by_line = true}};
    r.buffers.arena = a;
    find_line(&r);
    reader_expect_word(&r.in, "program");
    const char *at = r.in.s;
    m->name = reader_name(&r.in);
    graph_new(m, NULL, m->name);
    r.p = program_new(m);
    r.locals = r.axes = (map){.arena = a};
    next_line(&r);
    for (; reader_accept(&r.in, "dim "); next_line(&r)) reader_dim_declaration(&r.in);
    parse_buffers(&r);
    parse_region(&r, r.p->main, 0);
    if (r.indent >= 0) reader_fail(&r.in, "expected a step of the program");
    check_text(&r, at, check_program, r.p);
    return r.p;
}
