// Parses kernels and buffers (grammar: ir/kernel/kernel_text.h). In: any text. Out: a verified kernel, or a
// fatal error with its line.
#include "ir/kernel/kernel_text.h"
#include <string.h>

enum { SIZE_MOST = 1 << 30 }; // tiles, halos

void find_line(program_reader *r) {
    reader *in = &r->in;
    for (;;) {
        const char *line = in->s += *in->s == '\n';
        while (*in->s == ' ') in->s++;
        r->indent = *in->s ? (int)(in->s - line < 1000 ? in->s - line : 1000) : -1;
        if (in->s[0] == '/' && in->s[1] == '/') in->s += strcspn(in->s, "\n");
        else if (*in->s == '\r' && (in->s[1] == '\n' || !in->s[1])) in->s++;
        else if (*in->s != '\n') return;
    }
}

void next_line(program_reader *r) {
    reader_skip(&r->in);
    if (*r->in.s && *r->in.s != '\n') reader_fail(&r->in, "unexpected text at the end of the line");
    find_line(r);
}

void fail_column(const program_reader *r) { reader_fail(&r->in, "inconsistent indentation"); }

int parse_choice(program_reader *r, const char *const *words, int n) {
    reader_skip(&r->in);
    int best = -1;
    for (int j = 0; j < n; j++) {
        size_t size = strlen(words[j]);
        if (strncmp(r->in.s, words[j], size) == 0 && r->in.s[size] == ' ') best = j;
    }
    if (best >= 0) r->in.s += strlen(words[best]);
    return best;
}

// ---------------------------------------------------------------- buffers
buffer *parse_buffer_name(program_reader *r) {
    reader_skip(&r->in);
    const char *at = r->in.s, *name = reader_name(&r->in);
    buffer *b = map_get(&r->locals, name);
    if (!b) b = map_get(&r->buffers, name);
    if (!b) reader_fail_at(&r->in, at, "there is no buffer '%s' here", name);
    return b;
}

static int64_t parse_size(program_reader *r, int64_t least) {
    reader_skip(&r->in);
    const char *at = r->in.s;
    int64_t n = reader_int(&r->in);
    if (n < least || n > SIZE_MOST) reader_fail_at(&r->in, at, "the number is out of range");
    return n;
}

static int parse_axis_number(program_reader *r, int count) {
    int64_t n = parse_size(r, 0);
    if (n >= count) reader_fail(&r->in, "the layout has no axis %d", (int)n);
    return (int)n;
}

static void parse_entries(program_reader *r, layout *l, int rank) {
    int64_t tiles[MAX_RANK] = {0};
    for (reader_skip(&r->in); *r->in.s >= '0' && *r->in.s <= '9'; reader_skip(&r->in)) {
        if (l->n == 2 * MAX_RANK) reader_fail(&r->in, "a layout has too many axes");
        struct layout_entry *e = &l->order[l->n++];
        e->axis = parse_axis_number(r, rank);
        if (reader_accept(&r->in, ":")) e->tile = parse_size(r, 1);
        int64_t *whole = &tiles[e->axis];
        *whole = (*whole ? *whole : 1) * (e->tile ? e->tile : 1);
        if (*whole > SIZE_MOST) reader_fail(&r->in, "the tiles of a layout are too large");
    }
    for (int a = 0; a < rank; a++)
        if (!tiles[a]) reader_fail(&r->in, "the layout leaves out axis %d", a);
}

static const layout *parse_layout(program_reader *r, int rank) {
    layout *l = ARENA_NEW(r->p->arena, layout);
    reader_expect(&r->in, "(");
    parse_entries(r, l, rank);
    while (reader_accept_word(&r->in, "halo")) {
        int a = parse_axis_number(r, rank);
        reader_expect(&r->in, ":");
        l->pad_lo[a] = parse_size(r, -SIZE_MOST);
        reader_expect(&r->in, ",");
        l->pad_hi[a] = parse_size(r, -SIZE_MOST);
    }
    if (reader_accept_word(&r->in, "fill")) l->fill = reader_double(&r->in);
    if (reader_accept_word(&r->in, "gap")) {
        l->gap_entry = parse_axis_number(r, l->n);
        reader_expect(&r->in, ":");
        l->gap = parse_size(r, 0);
    }
    while (reader_accept_word(&r->in, "room")) {
        int a = parse_axis_number(r, rank);
        reader_expect(&r->in, ":");
        l->room[a] = parse_size(r, 1);
    }
    if (reader_accept_word(&r->in, "last")) l->last = parse_size(r, 1);
    reader_expect(&r->in, ")");
    return l;
}

static space parse_space(program_reader *r) {
    if (reader_accept(&r->in, space_words[SPACE_DEVICE])) return SPACE_DEVICE;
    return reader_accept(&r->in, space_words[SPACE_CALLER]) ? SPACE_CALLER : SPACE_HOST;
}

// Whether its outermost axis counts panels of dense rows.
static bool may_have_last(const buffer *b) {
    const layout *l = b->layout;
    bool known = b->role == BUF_CONST && l->n > 0;
    for (int j = 0; j < b->rank; j++) known &= dim_is_const(b->dims[j]);
    if (!known) return false;
    const struct layout_entry *tile = &l->order[l->n - 1];
    if (l->last >= tile->tile) return false;
    int entry = layout_last_panel(b).entry;
    for (int j = 0; j < entry; j++)
        if (!dim_is(b->dims[l->order[j].axis], 1)) return false;
    return dim_value(b->dims[tile->axis]) % tile->tile == l->last && !l->pad_lo[tile->axis] &&
           !l->pad_hi[tile->axis] && !l->room[tile->axis] && (!l->gap || l->gap_entry == entry);
}

buffer *parse_buffer(program_reader *r, buffer_role role) {
    reader_skip(&r->in);
    const char *at = r->in.s, *name = reader_name(&r->in);
    if (map_get(&r->buffers, name) || map_get(&r->locals, name))
        reader_fail_at(&r->in, at, "there are two buffers '%s'", name);
    reader_expect(&r->in, ":");
    type t = reader_shape(&r->in);
    if (t.rank < 0) reader_fail(&r->in, "a buffer needs a rank");
    buffer *b = role == BUF_LOCAL ? kernel_local(r->k, name, t.elem, t.rank, t.dims)
                                  : program_buffer(r->p, name, role, t.elem, t.rank, t.dims);
    map_put(role == BUF_LOCAL ? &r->locals : &r->buffers, name, b);
    if (reader_accept_word(&r->in, "layout")) b->layout = parse_layout(r, b->rank);
    if (b->layout && b->layout->last && !may_have_last(b))
        reader_fail_at(&r->in, at, "'%s' has a narrower last panel, but is not a constant in panels", name);
    b->space = parse_space(r);
    return b;
}

// ---------------------------------------------------------------- stages
// Trees of a stage that has not been read completely.
typedef struct state_tree {
    tree *step, *init, *merge;
} state_tree;
typedef struct write_tree {
    tree **index, *value, *guard;
} write_tree;
typedef struct stage_reader {
    program_reader *r;
    stage *s;
    int inner;   // indentation of the innermost loop
    int indent;  // indentation inside the parallel axes
    bool looped; // it has reduce or scan axes
    VEC(state_tree) states;
    VEC(write_tree) writes;
} stage_reader;

// Names of axes end in a number; an axis of several stages is declared in each.
static int parse_axis(program_reader *r, axis_kind kind) {
    reader_skip(&r->in);
    const char *at = r->in.s, *word = reader_name(&r->in);
    size_t n = strlen(word);
    while (n && word[n - 1] >= '0' && word[n - 1] <= '9') n--;
    reader_expect(&r->in, "<");
    dim *extent = reader_dim(&r->in);
    int known = (int)(intptr_t)map_get(&r->axes, word) - 1;
    if (known >= 0 && r->k->axes.at[known].kind == kind && r->k->axes.at[known].extent == extent)
        return known;
    if (!n || !word[n] || (n == 1 && *word == 's'))
        reader_fail_at(&r->in, at, "an axis is a name and a number");
    if (known >= 0) reader_fail_at(&r->in, at, "there are two axes '%s'", word);
    int a = kernel_axis(r->k, kind, arena_strndup(r->p->arena, word, n), extent);
    map_put(&r->axes, word, (void *)(intptr_t)(a + 1));
    return a;
}

static bool at_axis(program_reader *r) {
    const char *s = r->in.s;
    bool found = parse_choice(r, axis_words, AXIS_SCAN + 1) >= 0;
    r->in.s = s;
    return found;
}

static void parse_axes(stage_reader *g) {
    program_reader *r = g->r;
    while (r->indent == g->inner && at_axis(r)) {
        axis_kind kind = parse_choice(r, axis_words, AXIS_SCAN + 1);
        if (kind == AXIS_PARALLEL && g->looped) reader_fail(&r->in, "a parallel axis within a loop");
        int a = parse_axis(r, kind);
        bool again = a < r->k->nouter;
        for (int j = 0; j < g->s->axes.n; j++) again |= g->s->axes.at[j] == a;
        if (again) reader_fail(&r->in, "the axis is defined twice");
        stage_axis(r->k, g->s, a);
        next_line(r);
        g->inner += 2;
        if (kind == AXIS_PARALLEL) g->indent = g->inner;
        else g->looped = true;
    }
}

static void parse_state(stage_reader *g) {
    program_reader *r = g->r;
    state x = {.dtype = number_type(true)};
    state_tree t = {0};
    if (reader_accept(&r->in, ":")) {
        const char *name = reader_name(&r->in);
        x.dtype = dtype_from_name(name);
        if (x.dtype == DT_NONE || x.dtype == DT_STRING || dtype_compute(x.dtype) != x.dtype)
            reader_fail(&r->in, "kernels cannot compute in '%s'", name);
    }
    int op = parse_choice(r, reduce_words, RED_CUSTOM + 1);
    if (op < 0) reader_fail(&r->in, "expected an assignment");
    x.op = op;
    t.step = parse_expr(r);
    if (reader_accept_word(&r->in, "from")) t.init = parse_expr(r);
    else if (x.op == RED_CUSTOM) reader_fail(&r->in, "expected 'from' and the first value");
    else x.init = reduce_neutral(r->k, x.op, x.dtype);
    if (reader_accept_word(&r->in, "merge")) t.merge = parse_expr(r);
    VEC_PUSH(r->p->arena, &g->s->states, x);
    VEC_PUSH(r->p->arena, &g->states, t);
}

static void parse_write(stage_reader *g, write_when when) {
    program_reader *r = g->r;
    write w = {.to = parse_buffer_name(r), .when = when};
    write_tree t = {.index = parse_index(r, w.to)};
    int combine = parse_choice(r, combine_words, COMBINE_MAX + 1);
    if (combine < 0) reader_fail(&r->in, "expected an assignment");
    w.combine = combine;
    t.value = parse_expr(r);
    if (reader_accept_word(&r->in, "where")) t.guard = parse_expr(r);
    VEC_PUSH(r->p->arena, &g->s->writes, w);
    VEC_PUSH(r->p->arena, &g->writes, t);
}

// "s0 = ..." is a state; a write to a buffer of that name has brackets.
static bool accept_state(stage_reader *g) {
    reader *in = &g->r->in;
    const char *word = arena_printf(g->r->p->arena, "s%d", g->states.n);
    size_t n = strlen(word);
    if (strncmp(in->s, word, n) || (in->s[n] != ' ' && in->s[n] != ':')) return false;
    in->s += n;
    return true;
}

static bool at_then(program_reader *r) {
    return strncmp(r->in.s, "then", 4) == 0 && (!r->in.s[4] || strchr(" \r\n", r->in.s[4]));
}

static void parse_line(stage_reader *g) {
    if (reader_accept(&g->r->in, "let $")) parse_let(g->r);
    else if (accept_state(g)) parse_state(g);
    else parse_write(g, !g->looped ? WRITE_END : g->states.n ? WRITE_AFTER : WRITE_BEFORE);
    next_line(g->r);
}

static void build_stage(stage_reader *g) {
    program_reader *r = g->r;
    build_lets(r);
    for (int j = 0; j < g->states.n; j++) {
        state *x = &g->s->states.at[j];
        const state_tree *t = &g->states.at[j];
        if (t->init) x->init = build_expr(r, t->init, x->dtype);
        x->step = build_expr(r, t->step, x->dtype);
        if (t->merge) x->merge = build_expr(r, t->merge, x->dtype);
    }
    for (int j = 0; j < g->writes.n; j++) {
        write *w = &g->s->writes.at[j];
        const write_tree *t = &g->writes.at[j];
        w->index = ARENA_ARRAY(r->p->arena, expr *, w->to->rank + 1);
        for (int i = 0; i < w->to->rank; i++) w->index[i] = build_expr(r, t->index[i], DT_I64);
        w->value = build_expr(r, t->value, dtype_compute(w->to->dtype));
        if (t->guard) w->guard = build_expr(r, t->guard, DT_BOOL);
    }
}

static void parse_stage(program_reader *r, int indent) {
    const char *at = r->in.s;
    stage_reader g = {.r = r, .s = kernel_stage(r->k), .inner = indent, .indent = indent};
    r->stage = g.s;
    r->lets.n = 0;
    parse_axes(&g);
    while (r->indent == g.inner && !at_axis(r) && !at_then(r)) parse_line(&g);
    while (g.looped && r->indent == g.indent && !at_axis(r) && !at_then(r)) {
        parse_write(&g, WRITE_END);
        next_line(r);
    }
    if (r->indent > indent) fail_column(r);
    if (!g.writes.n) reader_fail_at(&r->in, at, "the stage writes nothing");
    build_stage(&g);
}

// ---------------------------------------------------------------- kernels
static void keep_message(void *user, const diag_message *m) { *(const char **)user = m->text; }

void check_text(program_reader *r, const char *at, void (*check)(void *user, diag *d), void *user) {
    const char *message = NULL;
    diag own = {.arena = r->p->arena, .sink = keep_message, .user = &message};
    jmp_buf jump;
    if (DIAG_TRY(&own, jump)) check(user, &own);
    else reader_fail_at(&r->in, at, "%s", message + strlen("internal error: "));
}

static void check_kernel(void *user, diag *d) { kernel_verify(user, d); }

static int parse_outer(program_reader *r, int indent) {
    for (; r->indent == indent && reader_accept(&r->in, "outer "); indent += 2) {
        if (parse_axis(r, AXIS_PARALLEL) != r->k->nouter) reader_fail(&r->in, "the axis is defined twice");
        r->k->nouter++;
        next_line(r);
    }
    return indent;
}

kernel *parse_kernel(program_reader *r) {
    const char *at = r->in.s, *name = reader_name(&r->in);
    arena *a = r->p->arena;
    loc *where = ARENA_NEW(a, loc);
    *where = (loc){.file = r->in.m->file, .node = name};
    kernel *k = r->k = kernel_new(r->p, name, where);
    r->locals = r->axes = (map){.arena = a};
    if (reader_accept_word(&r->in, "as")) k->algorithm = reader_name(&r->in);
    int outside = r->indent, indent = outside + 2;
    next_line(r);
    indent = parse_outer(r, indent);
    for (; r->indent == indent && reader_accept(&r->in, "local "); next_line(r)) parse_buffer(r, BUF_LOCAL);
    while (r->indent == indent) {
        if (k->stages.n && at_then(r)) r->in.s += 4, next_line(r);
        parse_stage(r, indent);
    }
    if (r->indent > outside) fail_column(r);
    check_text(r, at, check_kernel, k);
    r->locals = (map){.arena = a};
    return k;
}
