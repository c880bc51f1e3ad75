// In: a planned function. Out: its body as C statements. A value whose only user is in the same block waits
// and is inlined into the user. Before memory or a variable changes, pending values that read it get names.
#include "codegen/c/cname.h"
#include "codegen/c/ctext_impl.h"
#include "compiler/base/chars.h"

enum { COLUMNS = 110, MOST_INLINE = 14 };

// ---------------------------------------------------------------- lines

// A space after a comma, a semicolon or =, or before an operator followed by a space.
static bool may_break(const char *s, size_t i) {
    size_t op = i ? strspn(s + i + 1, "+-*/%<>&|^?:=!") : 0;
    if (s[i] != ' ' || !i) return false;
    if (strchr(",;=", s[i - 1])) return true;
    return op && s[i + 1 + op] == ' ' && s[i + op] != '=';
}

// Where to break s so that its first part fits: the last position with the least nesting.
static size_t break_at(const char *s, size_t room) {
    size_t best = 0;
    int depth = 0, least = 1 << 30;
    for (size_t i = 0; s[i] && i <= room; i++) {
        if (i > 20 && depth <= least && may_break(s, i)) {
            best = i;
            least = depth;
        }
        if (strchr("([{", s[i])) depth++;
        if (strchr(")]}", s[i])) depth--;
    }
    return best;
}

void cstmt_wrap(text *t, int indent, const char *s) {
    for (int more = 0;; more = 4) {
        size_t room = (size_t)(COLUMNS > indent + more + 40 ? COLUMNS - indent - more : 40), cut = 0;
        text_printf(t, "%*s", indent + more, "");
        if (strlen(s) > room) cut = break_at(s, room);
        if (!cut) break;
        text_addn(t, s, cut);
        text_add(t, "\n");
        s += cut + 1;
    }
    text_add(t, s);
    text_add(t, "\n");
}

static void line(cfn *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void line(cfn *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    cstmt_wrap(c->out, c->indent, arena_vprintf(c->arena, format, args));
    va_end(args);
}

// ---------------------------------------------------------------- names

// Names other than C's keywords that the text uses.
static const char own_words[] =
    " atomicAdd blockDim blockIdx ceil ceilf fabs fabsf floor floorf fma fmaf gridDim"
    " intptr_t main memcmp memcpy memmove memset offsetof ptrdiff_t rint rintf"
    " threadIdx trunc truncf uintptr_t vax warpSize ";

static bool is_taken(cfn *c, const char *name) {
    return c_is_reserved(name) || c_is_word_of(own_words, name) || map_get(&c->names, name) ||
           map_get(&c->mod->symbols, name) || !strncmp(name, c->mod->prefix, strlen(c->mod->prefix));
}

// An identifier that begins with a letter and, to differ from macros, is not all capitals.
static const char *identifier(arena *a, const char *hint) {
    bool lower = false;
    char *s = arena_printf(a, "v%s", hint), *w = s + 1;
    for (; *w; w++) {
        if (!char_is_letter(*w) && !char_is_digit(*w)) *w = '_';
        lower |= *w >= 'a' && *w <= 'z';
    }
    bool plain = (s[1] >= 'a' && s[1] <= 'z') || (s[1] >= 'A' && s[1] <= 'Z' && s[1] != 'I' && !s[2]) ||
                 (s[1] >= 'A' && s[1] <= 'Z' && lower);
    s += plain;
    return c_short_name(a, s, strlen(s));
}

// The hint, or the fallback, with the smallest number that makes it unique in its scope.
const char *cname_new(cfn *c, const char *hint, const char *fallback) {
    const char *stem = identifier(c->arena, hint && *hint ? hint : fallback), *name = stem;
    intptr_t old = (intptr_t)map_get(&c->stems, stem), n = old;
    bool digit = stem[strlen(stem) - 1] >= '0' && stem[strlen(stem) - 1] <= '9';
    for (; n || is_taken(c, name); n++) {
        name = n ? arena_printf(c->mod->arena, "%s%s%d", stem, digit ? "_" : "", (int)n) : stem;
        if (!is_taken(c, name)) break;
    }
    map_put(&c->stems, stem, (void *)(n + 1));
    map_put(&c->names, name, "");
    VEC_PUSH(c->arena, &c->scope, (cname){name, stem, (int)old});
    return name;
}

static void close_scope(cfn *c, int from) {
    while (c->scope.n > from) {
        cname *n = &c->scope.at[--c->scope.n];
        map_put(&c->names, n->name, NULL);
        map_put(&c->stems, n->stem, (void *)(intptr_t)n->old);
    }
}

static const char *fallback(lkind k) {
    return k == LK_PTR ? "p" : lkind_is_float(k) ? "t" : k == LK_I1 ? "is" : "n";
}

// ---------------------------------------------------------------- pending values

// Marks all values inlined into x as written.
static void consume(cfn *c, const ins *x) {
    for (int k = 0; k < x->nargs; k++) {
        cinfo *n = info_of(c, x->args[k]);
        if (n->state != STATE_PENDING) continue;
        n->state = STATE_DONE;
        consume(c, x->args[k]);
    }
}

static const char *declarator(cfn *c, const ins *x, cexpr e, const char *name) {
    if (x->type.kind != LK_PTR) {
        csign sign = e.sign == SIGN_UNSIGNED ? SIGN_UNSIGNED : SIGN_SIGNED;
        info_of(c, x)->sign = sign;
        return arena_printf(c->arena, "%s %s", ctype_name(x->type.kind, sign), name);
    }
    return arena_printf(c->arena, "%s%s", cptr_text(c->arena, cptr_of(c, x)), name);
}

// T name = tree;
static void name_value(cfn *c, const ins *x) {
    cinfo *n = info_of(c, x);
    cexpr e = cexpr_tree(c, x);
    consume(c, x);
    n->state = STATE_NAMED;
    n->name = cname_new(c, x->op == L_CALL ? NULL : x->name, fallback(x->type.kind));
    bool cast = x->type.kind == LK_PTR && (x->op == L_FIELD || x->op == L_CALL || x->op == L_CALLPTR);
    if (cast)
        line(c, "%s = (%s)%s;", declarator(c, x, e, n->name), cptr_text(c->arena, cptr_of(c, x)),
             cexpr_paren(c, e, PREC_UNARY));
    else line(c, "%s = %s;", declarator(c, x, e, n->name), e.s);
}

static void mark_tree(cfn *c, const ins *x) {
    info_of(c, x)->stamp = c->stamp;
    for (int k = 0; k < x->nargs; k++)
        if (info_of(c, x->args[k])->state == STATE_PENDING) mark_tree(c, x->args[k]);
}

static bool is_clobbered(cfn *c, const ins *x, bool memory, uint64_t vars) {
    const cinfo *n = info_of(c, x);
    return n->state == STATE_PENDING && n->stamp != c->stamp && ((memory && n->reads) || (n->vars & vars));
}

// Before x changes memory or variables, names the pending values that read them, except those inlined into x.
static void name_clobbered(cfn *c, const ins *x, bool memory, uint64_t vars) {
    int kept = 0;
    c->stamp++;
    mark_tree(c, x);
    for (int i = 0; i < c->pending.n; i++) {
        const ins *p = c->pending.at[i];
        if (is_clobbered(c, p, memory, vars) && !is_clobbered(c, info_of(c, p)->user, memory, vars))
            name_value(c, p);
    }
    for (int i = 0; i < c->pending.n; i++)
        if (info_of(c, c->pending.at[i])->state == STATE_PENDING) c->pending.at[kept++] = c->pending.at[i];
    c->pending.n = kept;
}

// Whether x reads memory that the function may write.
static bool reads_changing(cfn *c, const ins *x) {
    if (x->op == L_FIELD) return !info_of(c, x)->alias;
    if (x->op != L_LOAD && x->op != L_LOADN && x->op != L_GATHER) return false;
    const ins *base = x->args[0];
    while (base->op == L_OFFSET) base = base->args[0];
    if (base->op == L_SYMBOL) return !map_get(&c->mod->data, base->name);
    return !(base->op == L_PARAM && c->f->noalias && c->f->params.at[base->i].is_const);
}

// Notes the effects and the length of the text of x if it is inlined.
static void compute_cost(cfn *c, const ins *x) {
    cinfo *n = info_of(c, x);
    n->cost = x->op != L_CONST && x->op != L_SYMBOL && x->op != L_NULL;
    n->reads = reads_changing(c, x);
    n->vars = x->op == L_GET ? 1ull << (x->args[0]->id & 63) : 0;
    for (int k = 0; k < x->nargs; k++) {
        const cinfo *a = info_of(c, x->args[k]);
        if (a->state == STATE_NAMED) continue;
        n->cost += a->cost;
        n->reads |= a->reads;
        n->vars |= a->vars;
    }
}

// Indices such as i + 1 are rematerialised at each use.
static bool is_position(cfn *c, const ins *x) {
    return x->op == L_ADD && info_of(c, x->args[0])->state == STATE_NAMED && x->args[0]->op != L_VAR &&
           x->args[1]->op == L_CONST && !info_of(c, x)->data && cplan_no_wrap(c, x);
}

static void value(cfn *c, const ins *x) {
    cinfo *n = info_of(c, x);
    compute_cost(c, x);
    if (is_position(c, x)) n->alias = true;
    if (x->op == L_CONST || x->op == L_SYMBOL || x->op == L_NULL || n->alias) return;
    if (n->uses == 1 && n->local && n->cost <= MOST_INLINE) {
        n->state = STATE_PENDING;
        VEC_PUSH(c->arena, &c->pending, x);
    } else {
        name_value(c, x);
    }
}

// ---------------------------------------------------------------- assignments and calls

static bool is_get_of(cfn *c, const ins *x, const ins *var) {
    return x->op == L_GET && x->args[0] == var && info_of(c, x)->state != STATE_NAMED;
}

// var op= y if the value is an inlined var op y.
static const char *compound(cfn *c, const ins *var, const ins *v) {
    bool whole = v->op == L_ADD || v->op == L_SUB || v->op == L_MUL, is_float = lkind_is_float(v->type.kind);
    if (info_of(c, v)->state != STATE_PENDING || v->type.kind == LK_F16 || v->type.kind == LK_BF16)
        return NULL;
    if (v->op == L_MULADD && cfn_is_strict(c) && is_get_of(c, v->args[2], var))
        return arena_printf(c->arena, "+= %s * %s", cexpr_paren(c, cexpr_of(c, v->args[0]), PREC_MUL),
                            cexpr_paren(c, cexpr_of(c, v->args[1]), PREC_UNARY));
    if (!whole || v->type.kind == LK_I1 || (!is_float && !cplan_no_wrap(c, v))) return NULL;
    if (!is_float && lkind_bytes(v->type.kind) < 4) return NULL;
    bool second = v->op != L_SUB && is_get_of(c, v->args[1], var);
    if (!second && !is_get_of(c, v->args[0], var)) return NULL;
    const char *op = v->op == L_ADD ? "+" : v->op == L_SUB ? "-" : "*";
    const ins *other = v->args[!second];
    return arena_printf(c->arena, "%s= %s", op, is_float ? cexpr_of(c, other).s : cexpr_signed(c, other).s);
}

static const char *assigned(cfn *c, const ins *var, const ins *v) {
    cptr want = cptr_of(c, var);
    return var->type.kind == LK_PTR ? cmem_arg(c, v, &want) : cexpr_passed(c, v, SIGN_SIGNED);
}

static void set(cfn *c, const ins *x) {
    const ins *var = x->args[0];
    name_clobbered(c, x, false, 1ull << (var->id & 63));
    const char *more = compound(c, var, x->args[1]);
    const char *name = info_of(c, var)->name, *v = more ? more : assigned(c, var, x->args[1]);
    if (more) line(c, "%s %s;", name, more);
    else if (strcmp(name, v)) line(c, "%s = %s;", name, v);
    consume(c, x);
}

static void variable(cfn *c, const ins *x) {
    cinfo *n = info_of(c, x);
    const char *init = assigned(c, x, x->args[0]);
    consume(c, x);
    n->state = STATE_NAMED;
    n->name = cname_new(c, x->name, fallback(x->type.kind));
    line(c, "%s = %s;", declarator(c, x, cexpr_make(PREC_POSTFIX, SIGN_SIGNED, ""), n->name), init);
}

static void local(cfn *c, const ins *x) {
    cinfo *n = info_of(c, x);
    bool cuda = c->mod->dialect == DIALECT_CUDA,
         bytes = x->elem == LK_I1 || x->elem == LK_F16 || x->elem == LK_BF16;
    const char *align =
        cuda && x->align > lkind_bytes(x->elem) ? arena_printf(c->arena, "__align__(%d) ", x->align) : "";
    n->state = STATE_NAMED;
    n->name = cname_new(c, x->name, x->shared ? "tile" : "a");
    int64_t dynamic = cuda && x->shared ? lfunc_dynamic_shared(c->f) : 0;
    if (dynamic) {
        const char *type = ctype_name(x->elem, bytes ? SIGN_UNSIGNED : SIGN_SIGNED);
        line(c, "%s *%s = (%s *)(%s(%lld) + %lld);", type, n->name, type, cprelude(c, "dynamic_shared", NULL),
             (long long)dynamic, (long long)lfunc_shared_offset(c->f, x));
        return;
    }
    line(c, "%s%s%s %s[%lld];", cuda && x->shared ? "__shared__ " : "", align,
         x->elem == LK_I1 ? "uint8_t" : ctype_name(x->elem, bytes ? SIGN_UNSIGNED : SIGN_SIGNED), n->name,
         (long long)(x->i > 0 ? x->i : 1));
}

// atomicAdd has no variant for signed 64-bit integers. C text runs on one thread.
static void atomic_add(cfn *c, const ins *x) {
    lkind k = x->args[2]->type.kind;
    csign sign = SIGN_SIGNED;
    const char *place = cmem_place(c, x, k, x->args[0], x->args[1], &sign);
    const char *v = cexpr_passed(c, x->args[2], sign);
    if (!place)
        diag_defect(c->mod->d, NULL, "function %s: atomic add on elements of another type", c->f->name);
    if (c->mod->dialect == DIALECT_C) line(c, "%s += %s;", place, v);
    else if (k == LK_I64)
        line(c, "atomicAdd((unsigned long long *)&%s, (unsigned long long)(%s));", place, v);
    else line(c, "atomicAdd(&%s, %s);", place, v);
}

static void effect(cfn *c, const ins *x) {
    name_clobbered(c, x, x->op != L_BREAK && x->op != L_RETURN, 0);
    if (x->op == L_STORE || x->op == L_SCATTER)
        line(c, "%s;", cmem_store(c, x, x->args[0], x->args[1], x->args[2]));
    if (x->op == L_STOREN)
        line(c, "if (%s > 0) %s;", cexpr_paren(c, cexpr_signed(c, x->args[3]), PREC_ADD),
             cmem_store(c, x, x->args[0], x->args[1], x->args[2]));
    if (x->op == L_BARRIER) line(c, "__syncthreads();");
    if (x->op == L_ATOMIC_ADD) atomic_add(c, x);
    if (x->op == L_GPU) line(c, "%s;", cexpr_tree(c, x).s);
    if (x->op == L_CALL || x->op == L_CALLPTR || x->op == L_SHFL_XOR) {
        if (x->type.kind != LK_VOID && info_of(c, x)->uses) name_value(c, x);
        else line(c, "%s;", cexpr_tree(c, x).s);
    }
    consume(c, x);
}

static void set_field(cfn *c, const ins *x) {
    name_clobbered(c, x, true, 0);
    const char *member = cmem_member(c, x);
    if (!member)
        diag_defect(c->mod->d, NULL, "function %s: member %s of an unknown struct", c->f->name, x->name);
    line(c, "%s = %s;", member, cexpr_passed(c, x->args[1], SIGN_SIGNED));
    consume(c, x);
}

static void leave_loop(cfn *c, const ins *x) {
    const ins *cond = x->args[0];
    name_clobbered(c, x, false, 0);
    if (cond->op == L_CONST && cond->i) line(c, "break;");
    else line(c, "if (%s) break;", cexpr_of(c, cond).s);
    consume(c, x);
}

static void leave_function(cfn *c, const ins *x) {
    name_clobbered(c, x, false, 0);
    if (!x->nargs && x->next == NULL && !info_of(c, x)->parent) return;
    const ins *v = x->nargs ? x->args[0] : NULL;
    bool size = c->f->ctype && !strcmp(c->f->ctype, "size_t") && v && !(v->op == L_CONST && v->i >= 0);
    if (!v) line(c, "return;");
    else if (v->type.kind == LK_PTR) line(c, "return %s;", cmem_arg(c, v, &(cptr){.kind = PTR_BYTES}));
    else line(c, size ? "return (size_t)(%s);" : "return %s;", cexpr_passed(c, v, SIGN_SIGNED));
    consume(c, x);
}

// ---------------------------------------------------------------- structure

static void block(cfn *c, const lblock *b);
static void instruction(cfn *c, const ins *x);

static void body(cfn *c, const lblock *b) {
    int from = c->scope.n;
    c->indent += 4;
    block(c, b);
    c->indent -= 4;
    close_scope(c, from);
}

// C evaluates the bound in each iteration, so bounds that are expensive or change get a name before the loop.
static const char *bound(cfn *c, const ins *loop, int k) {
    const ins *x = loop->args[k];
    const cinfo *n = info_of(c, x), *l = info_of(c, loop);
    bool waits = n->state == STATE_PENDING || n->alias;
    cexpr e = cexpr_signed(c, x);
    if (!waits || (n->cost <= 4 && !n->reads && !(n->vars & l->vars))) return cexpr_paren(c, e, PREC_ADD);
    const char *name = cname_new(c, k == 1 ? "end" : "step", "n");
    line(c, "%s %s = %s;", ctype_name(x->type.kind, SIGN_SIGNED), name, e.s);
    return name;
}

static bool is_int_const(const ins *x, int64_t v) { return x->op == L_CONST && x->i == v; }

static void serial_loop(cfn *c, const ins *x) {
    cinfo *n = info_of(c, x);
    const char *end = bound(c, x, 1), *step = bound(c, x, 2), *begin = cexpr_signed(c, x->args[0]).s;
    consume(c, x);
    int from = c->scope.n;
    n->state = STATE_NAMED;
    n->name = cname_new(c, x->name, "i");
    const char *next = is_int_const(x->args[2], 1) ? arena_printf(c->arena, "%s++", n->name)
                                                   : arena_printf(c->arena, "%s += %s", n->name, step);
    if (c->mod->dialect == DIALECT_CUDA && x->role == LOOP_UNROLL) line(c, "#pragma unroll");
    line(c, "for (%s %s = %s; %s < %s; %s) {", ctype_name(x->type.kind, SIGN_SIGNED), n->name, begin, n->name,
         end, next);
    body(c, x->body[0]);
    line(c, "}");
    close_scope(c, from);
}

// The axis (x, y, z) of a grid or thread loop, else -1.
static int launch_axis(const ins *x, bool *thread) {
    *thread = loop_thread_axis(x->role) >= 0;
    return *thread ? loop_thread_axis(x->role) : loop_grid_axis(x->role);
}

// Iterations of the loop; -1: not known.
static int64_t iterations(const ins *x) {
    for (int k = 0; k < 3; k++)
        if (x->args[k]->op != L_CONST) return -1;
    int64_t begin = x->args[0]->i, end = x->args[1]->i, step = x->args[2]->i;
    return end <= begin ? 0 : (end - begin + step - 1) / step;
}

static const char *device_index(cfn *c, const ins *x) {
    bool thread;
    int axis = launch_axis(x, &thread);
    const char *type = ctype_name(x->type.kind, SIGN_SIGNED);
    const char *s = arena_printf(c->arena, "(%s)%s.%c", type, thread ? "threadIdx" : "blockIdx", "xyz"[axis]);
    if (!is_int_const(x->args[2], 1))
        s = arena_printf(c->arena, "%s * %s", s, cexpr_paren(c, cexpr_signed(c, x->args[2]), PREC_UNARY));
    if (is_int_const(x->args[0], 0)) return s;
    return arena_printf(c->arena, "%s + %s", cexpr_paren(c, cexpr_signed(c, x->args[0]), PREC_ADD), s);
}

// Block n executes iteration n, and the grid covers the loop. Threads may be fewer than iterations; they then
// advance by the size of the block.
static void device_loop(cfn *c, const ins *x) {
    cinfo *n = info_of(c, x);
    bool thread;
    int axis = launch_axis(x, &thread);
    int64_t size = (thread ? c->f->threads : c->f->grid)[axis], count = iterations(x);
    bool exact = size > 0 && size == count,
         covered = (count >= 0 && count <= size) || (!thread && (count < 0 || !size));
    if (!exact && n->syncs && thread)
        diag_defect(c->mod->d, NULL, "function %s: threads wait for each other inside the guarded loop %s",
                    c->f->name, x->name ? x->name : "");
    const char *index = device_index(c, x), *type = ctype_name(x->type.kind, SIGN_SIGNED);
    const char *end = covered ? cexpr_paren(c, cexpr_signed(c, x->args[1]), PREC_ADD) : bound(c, x, 1);
    const char *step = covered ? "" : bound(c, x, 2);
    consume(c, x);
    int from = c->scope.n;
    n->state = STATE_NAMED;
    n->name = cname_new(c, x->name, "i");
    if (covered && (n->uses || !exact)) line(c, "%s %s = %s;", type, n->name, index);
    if (exact) {
        block(c, x->body[0]);
        return;
    }
    if (covered) line(c, "if (%s < %s) {", n->name, end);
    else
        line(c, "for (%s %s = %s; %s < %s; %s += %s.%c * %s) {", type, n->name, index, n->name, end, n->name,
             thread ? "blockDim" : "gridDim", "xyz"[axis], step);
    body(c, x->body[0]);
    line(c, "}");
    if (!covered) close_scope(c, from);
}

// The break at the start of a loop if everything before it can be inlined into its condition.
static const ins *leading_break(cfn *c, const lblock *b) {
    const ins *x = b->first;
    for (int n = 0; x && x->op != L_BREAK; x = x->next) {
        const cinfo *i = info_of(c, x);
        if (i->state == STATE_DEAD || x->op == L_CONST || x->op == L_SYMBOL) continue;
        bool plain =
            !cplan_has_effect(x) && x->op != L_VAR && x->op != L_SET && x->op != L_LOCAL && !x->body[0];
        if (!plain || i->uses != 1 || !i->local || ++n > MOST_INLINE / 2) return NULL;
    }
    return x;
}

static void endless_loop(cfn *c, const ins *x) {
    const ins *stop = leading_break(c, x->body[0]), *rest = x->body[0]->first;
    int from = c->scope.n;
    if (stop) {
        for (; rest != stop; rest = rest->next) instruction(c, rest);
        line(c, "while (%s) {", cexpr_not(c, stop->args[0]).s);
        consume(c, stop);
        rest = stop->next;
    } else {
        line(c, "for (;;) {");
    }
    c->indent += 4;
    for (; rest; rest = rest->next) instruction(c, rest);
    c->indent -= 4;
    close_scope(c, from);
    line(c, "}");
}

static bool is_empty(cfn *c, const lblock *b) {
    for (const ins *x = b ? b->first : NULL; x; x = x->next)
        if (info_of(c, x)->state != STATE_DEAD) return false;
    return true;
}

static void branch(cfn *c, const ins *x) {
    bool no_then = is_empty(c, x->body[0]), no_else = is_empty(c, x->body[1]);
    cexpr cond = no_then ? cexpr_not(c, x->args[0]) : cexpr_of(c, x->args[0]);
    consume(c, x);
    line(c, "if (%s) {", cond.s);
    if (!no_then) body(c, x->body[0]);
    if (!no_then && !no_else) line(c, "} else {");
    if (!no_else) body(c, x->body[1]);
    line(c, "}");
}

static void structure(cfn *c, const ins *x) {
    const cinfo *n = info_of(c, x);
    bool thread, device = c->mod->dialect == DIALECT_CUDA && x->op == L_FOR && launch_axis(x, &thread) >= 0;
    name_clobbered(c, x, n->writes, n->vars);
    if (x->op == L_IF) branch(c, x);
    else if (x->op == L_LOOP) endless_loop(c, x);
    else if (device) device_loop(c, x);
    else serial_loop(c, x);
}

static void instruction(cfn *c, const ins *x) {
    if (x->op == L_COMMENT) ccomment(c->out, c->indent, x->name);
    if (info_of(c, x)->state == STATE_DEAD || x->op == L_PARAM || x->op == L_COMMENT) return;
    if (x->op == L_FOR || x->op == L_IF || x->op == L_LOOP) structure(c, x);
    else if (x->op == L_LOCAL) local(c, x);
    else if (x->op == L_VAR) variable(c, x);
    else if (x->op == L_SET) set(c, x);
    else if (x->op == L_SETFIELD) set_field(c, x);
    else if (x->op == L_BREAK) leave_loop(c, x);
    else if (x->op == L_RETURN) leave_function(c, x);
    else if (cplan_has_effect(x)) effect(c, x);
    else value(c, x);
}

static void block(cfn *c, const lblock *b) {
    for (const ins *x = b->first; x; x = x->next) instruction(c, x);
}

void cstmt_function(cfn *c) {
    text_add(c->out, "{\n");
    c->indent = 4;
    for (int i = 0; i < c->f->params.n; i++) {
        const ins *v = c->f->params.at[i].value;
        if (!info_of(c, v)->uses) line(c, "(void)%s;", info_of(c, v)->name);
    }
    block(c, c->f->body);
    text_add(c->out, "}\n");
}
