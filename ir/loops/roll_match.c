// Whether sequences of instructions are equal but for numbers and variables. Functions are compared by content, in the same
// way: kernels of equal layers have different names.
#include "ir/loops/roll_impl.h"
#include "ir/target.h"
#include <string.h>

// ---------------------------------------------------------------- shapes
static bool takes_number(const ins *x) {
    return x->op == L_CONST && x->type.lanes == 1 && lkind_is_int((lkind)x->type.kind) &&
           x->type.kind != LK_I1;
}

static bool has_name(const ins *x) { return x->op == L_FIELD || x->op == L_SETFIELD; }

static const lfunc *first_of(same_functions *s, const char *name);

// Of the contents of functions numbers and names of data count, of instructions that may match they do not.
typedef struct hashing {
    same_functions *functions;
    bool contents;
} hashing;

static uint64_t hash_operand(const hashing *c, uint64_t h, const ins *x) {
    int32_t facts[] = {x->op == L_CONST, x->type.kind, x->type.lanes};
    h = hash_bytes(h, facts, sizeof facts);
    if (x->op != L_CONST || (!c->contents && takes_number(x))) return h;
    h = hash_bytes(h, &x->i, sizeof x->i);
    return hash_bytes(h, &x->f, sizeof x->f);
}

static uint64_t hash_name(const hashing *c, uint64_t h, const ins *x) {
    if (has_name(x)) return hash_string(h, x->name);
    if (x->op != L_CALL && x->op != L_SYMBOL) return h;
    const lfunc *f = first_of(c->functions, x->name);
    if (!f && x->op == L_SYMBOL && !c->contents) return h;
    return hash_string(h, f ? f->name : x->name);
}

static uint64_t hash_block(const hashing *c, uint64_t h, const lblock *b);

static uint64_t hash_ins(const hashing *c, uint64_t h, const ins *x) {
    int64_t facts[] = {x->op, x->type.kind, x->type.lanes, x->nargs, x->i, x->elem, x->align, x->role};
    h = hash_bytes(h, facts, sizeof facts);
    for (int j = 0; j < x->nargs; j++) h = hash_operand(c, h, x->args[j]);
    h = hash_name(c, h, x);
    return hash_block(c, hash_block(c, h, x->body[0]), x->body[1]);
}

static uint64_t hash_block(const hashing *c, uint64_t h, const lblock *b) {
    for (const ins *x = b ? b->first : NULL; x; x = x->next)
        if (x->op != L_CONST && x->op != L_COMMENT) h = hash_ins(c, h, x);
    return hash_bytes(h, &(char){b != NULL}, 1);
}

uint64_t ins_shape(same_functions *s, const ins *x) { return hash_ins(&(hashing){s, false}, HASH_SEED, x); }

// ---------------------------------------------------------------- operands
static bool add_number(matching *m, ins *user, int arg, const ins *x, const ins *y) {
    if (!m->count) return x->i == y->i;
    if (m->number == m->numbers.n) {
        int64_t *values = ARENA_ARRAY(m->arena, int64_t, m->count);
        for (int t = 0; t < m->now; t++) values[t] = x->i;
        VEC_PUSH(m->arena, &m->numbers, (number_slot){m->statement, user, arg, values});
    }
    m->numbers.at[m->number++].values[m->now] = y->i;
    return true;
}

static bool add_value(matching *m, ins *user, int arg, ins *x, ins *y) {
    if (!m->count) return false;
    if (m->value == m->values.n) {
        ins **values = ARENA_ARRAY(m->arena, ins *, m->count);
        for (int t = 0; t < m->now; t++) values[t] = x;
        VEC_PUSH(m->arena, &m->values, (value_slot){m->statement, user, arg, values});
    }
    value_slot *s = &m->values.at[m->value++];
    s->values[m->now] = y;
    return s->user == user && s->arg == arg;
}

static bool add_carried(matching *m, ins *user, int arg, ins *x, const ins *y) {
    ins *next = m->pair[y->id];
    if (iteration_of(m, x) >= 0 || iteration_of(m, y) != m->now - 1 || x->type.kind == LK_I1 ||
        x->type.lanes != 1)
        return false;
    if (m->carry == m->carried.n && m->now == 1)
        VEC_PUSH(m->arena, &m->carried, (carried_slot){m->statement, user, arg, x, next});
    if (m->carry == m->carried.n) return false;
    const carried_slot *s = &m->carried.at[m->carry++];
    return s->user == user && s->arg == arg && s->next == next;
}

static variable_slot *slot_of(matching *m, const ins *x) {
    return map_get_number(&m->slot_of, (uint64_t)x->id + 1);
}

static variable_slot *new_slot(matching *m, ins *x) {
    variable_slot *s = ARENA_NEW(m->arena, variable_slot);
    s->variables = ARENA_ARRAY(m->arena, ins *, m->count);
    for (int t = 0; t < m->now; t++) s->variables[t] = x;
    map_put_number(&m->slot_of, (uint64_t)x->id + 1, s);
    VEC_PUSH(m->arena, &m->variables, s);
    return s;
}

// A variable is the same in all iterations, or another one in each.
static bool match_variables(matching *m, ins *x, ins *y) {
    if (x->op != L_VAR || y->op != L_VAR || x->type.kind != y->type.kind || x->type.lanes != 1 ||
        y->type.lanes != 1 || iteration_of(m, x) >= 0 || iteration_of(m, y) >= 0 || !m->count)
        return false;
    variable_slot *s = slot_of(m, x), *of_y = slot_of(m, y);
    if (!s) s = new_slot(m, x);
    if (s->variables[0] != x || (of_y && of_y != s)) return false;
    if (s->variables[m->now]) return s->variables[m->now] == y;
    if (m->now > 1 && (s->variables[m->now - 1] != x) != (y != x)) return false;
    if (y != x) {
        if (of_y || x->type.kind == LK_I1) return false;
        map_put_number(&m->slot_of, (uint64_t)y->id + 1, s);
        s->differ = true;
    }
    s->variables[m->now] = y;
    return true;
}

static bool same_type(const ins *x, const ins *y) {
    return x->type.kind == y->type.kind && x->type.lanes == y->type.lanes;
}

static bool match_operands(matching *m, ins *user, int arg, ins *x, ins *y) {
    if (!same_type(x, y)) return false;
    if (x->op == L_CONST && y->op == L_CONST) {
        if (takes_number(x)) return add_number(m, user, arg, x, y);
        return x->i == y->i && !memcmp(&x->f, &y->f, sizeof x->f);
    }
    if (m->pair[y->id] == x && (!m->count || iteration_of(m, y) == m->now)) return true;
    if (x->op == L_VAR) {
        bool same = match_variables(m, x, y);
        m->reads_differ |= !same && user->op == L_GET;
        return same;
    }
    if (m->carries && iteration_of(m, y) >= 0) return add_carried(m, user, arg, x, y);
    bool before = iteration_of(m, x) < 0 && iteration_of(m, y) < 0;
    if (!before || x->op == L_CONST || y->op == L_CONST || y->op == L_VAR) return false;
    bool element = x->type.lanes == 1 && x->type.kind != LK_I1;
    return element ? add_value(m, user, arg, x, y) : x == y;
}

// ---------------------------------------------------------------- instructions
static ins *next_statement(ins *x) {
    while (x && (x->op == L_CONST || x->op == L_COMMENT)) x = x->next;
    return x;
}

static bool match_blocks(matching *m, const lblock *a, const lblock *b);

static bool is_data(const matching *m, const ins *x) {
    return x->op == L_SYMBOL && !map_get(&m->functions->by_name, x->name);
}

// Whether the functions of these names do the same. A name may belong to no function.
static bool same_function_names(same_functions *s, const char *x, const char *y) {
    if (!strcmp(x, y)) return true;
    const lfunc *f = first_of(s, x);
    return f && f == first_of(s, y);
}

static bool match_names(matching *m, ins *x, ins *y) {
    if (m->count && is_data(m, x)) return is_data(m, y) && add_value(m, x, USER_ITSELF, x, y);
    if (x->op == L_CALL || x->op == L_SYMBOL) return same_function_names(m->functions, x->name, y->name);
    return !has_name(x) || !strcmp(x->name, y->name);
}

static bool same_lanes(const ins *x, const ins *y) {
    return !x->mask == !y->mask && (!x->mask || !memcmp(x->mask, y->mask, x->type.lanes * sizeof *x->mask));
}

static bool is_read_only(const matching *m, const ins *x) {
    return x->op == L_GET && iteration_of(m, x->args[0]) < 0 &&
           !map_get_number(&m->set, (uint64_t)x->args[0]->id + 1);
}

static bool match_reads(matching *m, ins *x, ins *y) {
    if (!is_read_only(m, y) || !same_type(x, y) || x->type.lanes != 1 || x->type.kind == LK_I1) return false;
    m->pair[y->id] = x;
    return add_value(m, x, USER_ITSELF, x, y);
}

static bool match_ins(matching *m, ins *x, ins *y) {
    if (m->reads && is_read_only(m, x)) return match_reads(m, x, y);
    if (x->op != y->op || !same_type(x, y) || x->nargs != y->nargs || x->i != y->i ||
        memcmp(&x->f, &y->f, sizeof x->f) || x->elem != y->elem || x->shared != y->shared ||
        x->align != y->align || x->role != y->role || x->gpu != y->gpu || !same_lanes(x, y) ||
        !match_names(m, x, y) || (m->count && x->op == L_LOCAL))
        return false;
    for (int j = 0; j < x->nargs; j++)
        if (!match_operands(m, x, j, x->args[j], y->args[j])) return false;
    m->pair[y->id] = x;
    return match_blocks(m, x->body[0], y->body[0]) && match_blocks(m, x->body[1], y->body[1]);
}

static bool match_blocks(matching *m, const lblock *a, const lblock *b) {
    if (!a != !b) return false;
    if (a == b && !m->count) return true;
    ins *x = next_statement(a ? a->first : NULL), *y = next_statement(b ? b->first : NULL);
    for (; x && y; x = next_statement(x->next), y = next_statement(y->next))
        if (!match_ins(m, x, y)) return false;
    return !x && !y;
}

// ---------------------------------------------------------------- repeats
int iteration_of(const matching *m, const ins *x) {
    int at = m->place ? m->place[x->id] - 1 - m->first : NO_ITERATION;
    return at >= 0 && at < m->period * m->count ? at / m->period : NO_ITERATION;
}

static bool match_iteration(matching *m, ins *const *statements) {
    m->number = m->value = m->carry = 0;
    for (int j = 0; j < m->period; j++) {
        m->statement = statements[m->first + j];
        if (!match_ins(m, m->statement, statements[m->first + m->now * m->period + j])) return false;
    }
    return m->value == m->values.n && m->carry == m->carried.n;
}

static void find_set(matching *m, const ins *x) {
    if (x->op == L_SET) map_put_number(&m->set, (uint64_t)x->args[0]->id + 1, m);
    for (int j = 0; j < 2; j++)
        for (const ins *y = x->body[j] ? x->body[j]->first : NULL; y; y = y->next) find_set(m, y);
}

void match_repeats(matching *m, ins *const *statements) {
    for (int j = 0; m->reads && j < m->period * m->count; j++) find_set(m, statements[m->first + j]);
    for (int j = 0; j < m->period; j++) m->pair[statements[m->first + j]->id] = statements[m->first + j];
    for (m->now = 1; m->now < m->count; m->now++)
        if (!match_iteration(m, statements)) m->count = m->now;
}

// ---------------------------------------------------------------- functions
void same_functions_init(same_functions *s, const lmodule *m, arena *a) {
    *s = (same_functions){.arena = a, .keep_names = m->debug_info};
    s->by_name.arena = s->first.arena = s->by_hash.arena = a;
    for (int i = 0; i < m->funcs.n; i++)
        if (m->funcs.at[i]->body) map_put(&s->by_name, m->funcs.at[i]->name, m->funcs.at[i]);
}

static bool same_heads(const lfunc *f, const lfunc *g) {
    if (f->target != g->target || f->params.n != g->params.n || f->result.kind != g->result.kind ||
        f->result.lanes != g->result.lanes || f->kernel != g->kernel || f->noalias != g->noalias ||
        f->strict_fp != g->strict_fp || f->half_vectors != g->half_vectors || f->exported || g->exported)
        return false;
    for (int i = 0; i < f->params.n; i++) {
        const lparam *p = &f->params.at[i], *q = &g->params.at[i];
        if (!same_type(p->value, q->value) || p->dtype != q->dtype || p->is_const != q->is_const ||
            p->constant != q->constant)
            return false;
    }
    return true;
}

static bool same_contents(same_functions *s, const lfunc *f, const lfunc *g) {
    if (!same_heads(f, g)) return false;
    if (f->body == g->body) return true;
    arena *scratch = arena_within(s->arena);
    int n = (f->nins > g->nins ? f->nins : g->nins) + 1;
    matching m = {.arena = scratch, .functions = s, .pair = ARENA_ARRAY(scratch, ins *, n)};
    bool same = match_blocks(&m, f->body, g->body);
    arena_destroy(scratch);
    return same;
}

static const lfunc *first_of(same_functions *s, const char *name) {
    const lfunc *f = map_get(&s->by_name, name), *known = map_get(&s->first, name);
    if (!f || known || f->exported || (s->keep_names && !f->kernel)) return known ? known : f;
    uint64_t hash = hash_block(&(hashing){s, true}, (uint64_t)(uintptr_t)f->target, f->body);
    known = map_get_number(&s->by_hash, hash);
    if (!known) map_put_number(&s->by_hash, hash, (void *)(uintptr_t)f);
    if (!known || !same_contents(s, f, known)) known = f;
    map_put(&s->first, name, (void *)(uintptr_t)known);
    return known;
}
