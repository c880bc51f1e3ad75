// Einsum: sums of products over labelled axes. More than two operands are contracted pairwise from the left,
// so that the work is at most the work of the pairs.
//
//   for output labels:  out[labels] = sum over the other labels of a[labels of a] * b[labels of b]
#include "ir/ops/contract.h"
#include <string.h>

// Labels: 0..25 'A'..'Z', 26..51 'a'..'z' (in ASCII order), 52 + k for axis k from the right of an ellipsis.
enum { LETTERS = 52, LABELS = LETTERS + MAX_RANK };

typedef struct term {
    int n;
    int label[MAX_RANK];
} term;
typedef struct equation {
    int nterms;
    term *terms;
    term out;
    dim *extent[LABELS];
} equation;

static int letter(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    return c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

static void term_add(const node *n, term *t, int label) {
    if (t->n == MAX_RANK) infer_error(n, "a term of the equation has more than %d axes", MAX_RANK);
    t->label[t->n++] = label;
}

// The term at *s, up to ',', "->" or the end; "..." stands for `ellipsis` axes.
static term parse_term(const node *n, const char **s, int ellipsis) {
    term t = {0};
    bool dots = false;
    for (; **s && **s != ',' && **s != '-'; ++*s) {
        if (**s == ' ') continue;
        if (**s == '.') {
            if (strncmp(*s, "...", 3) != 0 || dots) infer_error(n, "equation has a misplaced '.'");
            dots = true;
            *s += 2;
            for (int k = ellipsis - 1; k >= 0; k--) term_add(n, &t, LETTERS + k);
        } else if (letter(**s) >= 0) {
            term_add(n, &t, letter(**s));
        } else {
            infer_error(n, "equation has the character '%c'", **s);
        }
    }
    return t;
}

static int count_letters(const char *s) {
    int letters = 0;
    for (; *s && *s != ',' && *s != '-'; s++) letters += letter(*s) >= 0;
    return letters;
}

static void parse_operands(const node *n, const char **s, equation *e, int *widest) {
    for (int i = 0; i < n->nin; i++) {
        int rank = infer_rank(n, i), letters = count_letters(*s);
        e->terms[i] = parse_term(n, s, rank - letters);
        if (e->terms[i].n != rank)
            infer_error(n, "term %d of the equation has %d axes, its input has rank %d", i, e->terms[i].n,
                        rank);
        if (rank - letters > *widest) *widest = rank - letters;
        if ((**s == ',') != (i + 1 < n->nin))
            infer_error(n, "the equation does not have one term for each of the %d inputs", n->nin);
        if (**s == ',') ++*s;
    }
}

static int label_uses(const equation *e, int label) {
    int uses = 0;
    for (int i = 0; i < e->nterms; i++)
        for (int k = 0; k < e->terms[i].n; k++) uses += e->terms[i].label[k] == label;
    return uses;
}

// Without "->" the output has the ellipsis axes, then the labels that occur once, in order.
static void implicit_output(const node *n, equation *e, int widest) {
    for (int k = widest - 1; k >= 0; k--) term_add(n, &e->out, LETTERS + k);
    for (int c = 0; c < LETTERS; c++)
        if (label_uses(e, c) == 1) term_add(n, &e->out, c);
}

static void label_extents(const node *n, equation *e) {
    for (int i = 0; i < e->nterms; i++)
        for (int k = 0; k < e->terms[i].n; k++) {
            dim **to = &e->extent[e->terms[i].label[k]], *d = infer_in(n, i)->dims[k];
            *to = *to ? infer_broadcast_dim(n, *to, d, k) : d;
        }
    for (int k = 0; k < e->out.n; k++) {
        if (!e->extent[e->out.label[k]])
            infer_error(n, "axis %d of the output of equation '%s' is not in the term of an input", k,
                        node_string(n, "equation", ""));
        for (int j = 0; j < k; j++)
            if (e->out.label[j] == e->out.label[k]) infer_error(n, "the output repeats a label");
    }
}

static equation parse_equation(const node *n) {
    const char *s = node_string(n, "equation", NULL);
    if (!s) infer_error(n, "attribute equation is missing");
    equation e = {.nterms = n->nin, .terms = ARENA_ARRAY(infer_arena(n), term, n->nin + 1)};
    int widest = 0;
    parse_operands(n, &s, &e, &widest);
    if (*s == 0) {
        implicit_output(n, &e, widest);
    } else {
        if (strncmp(s, "->", 2) != 0) infer_error(n, "the equation has a '-' without '>'");
        s += 2;
        e.out = parse_term(n, &s, strstr(s, "...") ? widest : 0);
        if (*s) infer_error(n, "the equation has text after the output's term");
    }
    label_extents(n, &e);
    return e;
}

static void einsum_infer(node *n) {
    equation e = parse_equation(n);
    dim *dims[MAX_RANK];
    for (int k = 0; k < e.out.n; k++) dims[k] = e.extent[e.out.label[k]];
    infer_set(n, 0, infer_in(n, 0)->elem, e.out.n, dims);
}

typedef struct operand {
    buffer *buffer;
    term term;
} operand;

static bool has_label(const term *t, int label) {
    for (int k = 0; k < t->n; k++)
        if (t->label[k] == label) return true;
    return false;
}

static expr *read_operand(kernel *k, const equation *e, const operand *o, expr *const *axis) {
    expr *at[MAX_RANK];
    for (int i = 0; i < o->term.n; i++) {
        int label = o->term.label[i];
        at[i] = broadcast_index(k, o->buffer->dims[i], e->extent[label], axis[label]);
    }
    return x_read(k, o->buffer, at);
}

static expr *label_axis(kernel *k, stage *s, const equation *e, axis_kind kind, int label) {
    const char *name = "e";
    if (label < LETTERS) name = arena_printf(k->arena, "%c", label < 26 ? 'A' + label : 'a' + label - 26);
    return stage_own_axis(k, s, kind, name, e->extent[label]);
}

// out = sum of the product of one or two operands.
static void contract(kernel *k, const equation *e, int count, const operand *in, operand out) {
    stage *s = kernel_stage(k);
    expr *axis[LABELS] = {0}, *at[MAX_RANK];
    for (int i = 0; i < out.term.n; i++)
        at[i] = axis[out.term.label[i]] = label_axis(k, s, e, AXIS_PARALLEL, out.term.label[i]);
    bool reduces = false;
    for (int o = 0; o < count; o++)
        for (int i = 0; i < in[o].term.n; i++) {
            int label = in[o].term.label[i];
            if (axis[label]) continue;
            axis[label] = label_axis(k, s, e, AXIS_REDUCE, label);
            reduces = true;
        }
    expr *v = read_operand(k, e, &in[0], axis);
    if (count == 2) v = x_mul(k, v, read_operand(k, e, &in[1], axis));
    stage_write(k, s, out.buffer, at, reduces ? stage_reduce(k, s, RED_SUM, v) : v);
}

// The labels of a and b that later operands or the output need.
static term kept_labels(const node *n, const equation *e, const term *a, const term *b, int next) {
    term t = {0};
    for (int o = 0; o < 2; o++) {
        const term *from = o ? b : a;
        for (int i = 0; i < from->n; i++) {
            int label = from->label[i];
            bool needed = has_label(&e->out, label);
            for (int j = next; j < e->nterms; j++) needed |= has_label(&e->terms[j], label);
            if (needed && !has_label(&t, label)) term_add(n, &t, label);
        }
    }
    return t;
}

static void einsum_lower(lowering *l, node *n) {
    equation e = parse_equation(n);
    operand in[2] = {{lower_in(l, n, 0), e.terms[0]}};
    for (int i = 1; i + 1 < n->nin; i++) {
        in[1] = (operand){lower_in(l, n, i), e.terms[i]};
        operand part = {.term = kept_labels(n, &e, &in[0].term, &in[1].term, i + 1)};
        dim *dims[MAX_RANK];
        for (int k = 0; k < part.term.n; k++) dims[k] = e.extent[part.term.label[k]];
        const char *suffix = arena_printf(l->program->arena, "part%d", i);
        part.buffer = lower_temp(l, n, suffix, dtype_compute(in[0].buffer->dtype), part.term.n, dims);
        contract(lower_kernel(l, n, suffix), &e, 2, in, part);
        in[0] = part;
    }
    if (n->nin > 1) in[1] = (operand){lower_in(l, n, n->nin - 1), e.terms[n->nin - 1]};
    operand out = {lower_out(l, n, 0), e.out};
    contract(lower_kernel(l, n, NULL), &e, n->nin > 1 ? 2 : 1, in, out);
}

OPERATOR(Einsum, .infer = einsum_infer, .lower = einsum_lower);
