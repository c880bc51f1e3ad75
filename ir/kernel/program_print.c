// Prints programs (grammar: ir/kernel/kernel_text.h). In: a program. Out: text that program_parse reads back
// to the same text; large constants and strings are printed without their data.
#include "ir/kernel/kernel_text.h"
#include <string.h>

const char *const step_words[] = {
    [STEP_KERNEL] = "kernel", [STEP_CHECK] = "check", [STEP_SET_DIM] = "?", [STEP_ALLOC] = "alloc",
    [STEP_FREE] = "free",     [STEP_COPY] = "copy",   [STEP_MOVE] = "move", [STEP_IF] = "if",
    [STEP_LOOP] = "loop",     [STEP_LIB] = "call"};

enum { DATA_MOST = 32 }; // largest constant that is printed with its data

static void print_region(text *t, named_dims *dims, const region *r, int indent);

// ---------------------------------------------------------------- steps
static void print_element(text *t, const buffer *b, int64_t index) {
    print_name(t, b->name);
    text_printf(t, "[%lld]", (long long)index);
}

static void print_two(text *t, const step *s) {
    print_name(t, s->buffer->name);
    if (s->from) text_add(t, " = "), print_name(t, s->from->name);
}

static void print_args(text *t, const step *s, int from, int to) {
    for (int j = from; j < to; j++) {
        if (j > from) text_add(t, ", ");
        if (s->args[j]) print_name(t, s->args[j]->name);
        else text_add(t, "_");
    }
}

static void print_call(text *t, named_dims *dims, const step *s) {
    text_printf(t, "%s%s%s(", s->lib, s->symbol ? " " : "", s->symbol ? s->symbol : "");
    print_args(t, s, 0, s->nwritten);
    text_add(t, "; ");
    print_args(t, s, s->nwritten, s->nargs);
    text_add(t, "; ");
    for (int j = 0; j < s->nnumbers; j++) {
        if (j) text_add(t, ", ");
        print_dim(t, dims, s->numbers[j]);
    }
    text_add(t, ")");
    for (int j = 0; j < s->nmessages; j++) {
        text_add(t, j ? ", " : " messages ");
        text_add_quoted(t, s->messages[j], strlen(s->messages[j]));
    }
}

static void print_loop(text *t, named_dims *dims, const step *s) {
    print_dim(t, dims, s->target);
    if (s->dim) text_add(t, " < "), print_dim(t, dims, s->dim);
    if (s->buffer) text_add(t, " while "), print_element(t, s->buffer, 0);
}

static void print_step(text *t, named_dims *dims, const step *s, int indent) {
    text_printf(t, "%*s", indent, "");
    if (s->kind != STEP_SET_DIM) text_printf(t, "%s ", step_words[s->kind]);
    switch (s->kind) {
    case STEP_KERNEL: print_kernel(t, dims, s->kernel, indent + 2); return;
    case STEP_CHECK:
        print_dim(t, dims, s->dim);
        text_add(t, ": ");
        text_add_quoted(t, s->message, strlen(s->message));
        break;
    case STEP_SET_DIM:
        print_dim(t, dims, s->target);
        text_add(t, " := ");
        if (s->dim) print_dim(t, dims, s->dim);
        else print_element(t, s->buffer, s->index);
        break;
    case STEP_ALLOC:
    case STEP_FREE:
    case STEP_COPY:
    case STEP_MOVE: print_two(t, s); break;
    case STEP_IF:
        if (s->buffer) print_element(t, s->buffer, 0);
        else print_dim(t, dims, s->dim);
        break;
    case STEP_LOOP: print_loop(t, dims, s); break;
    case STEP_LIB: print_call(t, dims, s); break;
    }
    text_add(t, "\n");
    for (int b = 0; b < 2; b++) {
        if (!s->body[b]) continue;
        if (b) text_printf(t, "%*selse\n", indent, "");
        print_region(t, dims, s->body[b], indent + 2);
    }
}

static void print_region(text *t, named_dims *dims, const region *r, int indent) {
    for (int j = 0; j < r->steps.n; j++) print_step(t, dims, r->steps.at[j], indent);
}

// ---------------------------------------------------------------- buffers
static void print_related(text *t, const char *word, const buffer *b) {
    if (!b) return;
    text_add(t, word);
    print_name(t, b->name);
}

static const buffer *input_of_state(const program *p, const buffer *b) {
    int input = p->state && b->role == BUF_OUTPUT && !b->view_of ? p->state[b->io] : 0;
    return input ? p->inputs.at[input - 1] : NULL;
}

static void print_program_buffer(text *t, named_dims *dims, const program *p, const buffer *b) {
    print_buffer(t, dims, b);
    print_related(t, " view of ", b->view_of);
    if (b->view_offset) text_printf(t, " + %lld", (long long)b->view_offset);
    if (b->offset) text_add(t, " at "), print_dim(t, dims, b->offset);
    print_related(t, " or ", b->caller);
    print_related(t, " else ", b->fallback);
    print_related(t, " in ", input_of_state(p, b));
    if (b->holds) text_printf(t, " holds %s", type_text(t->arena, b->holds));
    if (b->labels) {
        text_printf(t, " labels %s[%lld]", dtype_name(b->labels->elem), (long long)b->labels->count);
        print_data(t, b->labels);
    }
    const constant *c = b->view_of ? NULL : b->data;
    if (c && ((c->kind != CONST_BYTES && c->kind != CONST_ROUNDED) || c->count <= DATA_MOST))
        print_data(t, c);
    text_add(t, "\n");
}

// ---------------------------------------------------------------- names
// Duplicate names get numbers while the program is printed.
typedef struct names {
    map taken; // by name: the kernel that uses it, or this struct for the whole program
    VEC(struct renamed_buffer {
        buffer *b;
        const char *name;
    })
    renamed;
} names;

static void make_unique(names *n, buffer *b, const void *owner) {
    arena *a = n->taken.arena;
    const char *name = b->name;
    for (int j = 1;; j++) {
        const void *other = map_get(&n->taken, name);
        if (!other || (other != n && other != owner)) break; // locals of other kernels are out of scope
        name = arena_printf(a, "%s.%d", b->name, j);
    }
    map_put(&n->taken, name, (void *)owner);
    if (name == b->name) return;
    VEC_PUSH(a, &n->renamed, (struct renamed_buffer){b, b->name});
    b->name = name;
}

const char *program_print(arena *a, const program *p) {
    names n = {.taken.arena = a};
    for (int j = 0; j < p->buffers.n; j++) make_unique(&n, p->buffers.at[j], &n);
    step_list steps = program_steps(a, p);
    for (int j = 0; j < steps.n; j++) {
        kernel *k = steps.at[j].s->kernel;
        for (int i = 0; k && i < k->locals.n; i++) make_unique(&n, k->locals.at[i], k);
    }
    named_dims dims = {.arena = a};
    text body = {.arena = a}, t = {.arena = a};
    for (int j = 0; j < p->buffers.n; j++) print_program_buffer(&body, &dims, p, p->buffers.at[j]);
    if (p->workspace)
        text_add(&body, "workspace "), print_dim(&body, &dims, p->workspace), text_add(&body, "\n");
    print_region(&body, &dims, p->main, 0);
    for (int j = 0; j < n.renamed.n; j++) n.renamed.at[j].b->name = n.renamed.at[j].name;
    text_add(&t, "program ");
    print_name(&t, p->name ? p->name : "");
    text_add(&t, "\n");
    int ndims;
    const char **lines = named_dims_lines(&dims, &ndims);
    for (int j = 0; j < ndims; j++) text_printf(&t, "%s\n", lines[j]);
    text_addn(&t, body.s, body.n);
    return text_str(&t);
}
