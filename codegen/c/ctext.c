// In: a module's functions and data. Out: its C or CUDA text: prelude, data, prototypes and functions. All
// instructions are checked before anything is written.
#include "codegen/c/ctext.h"
#include "codegen/c/cname.h"
#include "codegen/c/ctext_impl.h"
#include "codegen/c/cuda.h"
#include "codegen/c/library.h"

// ---------------------------------------------------------------- the module's names and instructions

static void check_ins(cmod *m, const lfunc *f, const ins *x) {
    bool c = m->dialect == DIALECT_C;
    if (x->type.lanes > 1 || (x->nargs && x->args[0]->type.lanes > 1))
        diag_defect(m->d, NULL, "function %s: a vector value in C text", f->name);
    if (c && x->op == L_FMA) diag_defect(m->d, NULL, "function %s: a fused multiply-add in C text", f->name);
    if (lop_class(x->op) == LC_TILE) diag_defect(m->d, NULL, "function %s: matrix tiles in C text", f->name);
    if (c && (x->op == L_BARRIER || x->op == L_SHFL_XOR || x->op == L_GPU))
        diag_defect(m->d, NULL, "function %s: threads of a device in C text", f->name);
}

static void collect_block(cmod *m, const lfunc *f, const lblock *b) {
    for (const ins *x = b ? b->first : NULL; x; x = x->next) {
        check_ins(m, f, x);
        if (x->op == L_SYMBOL || x->op == L_CALL) map_put(&m->symbols, x->name, "");
        collect_block(m, f, x->body[0]);
        collect_block(m, f, x->body[1]);
    }
}

static void choose_prefix(cmod *m) {
    m->prefix = "ox_";
    for (int i = 0; i < m->symbols.n; i++)
        if (!strncmp(m->symbols.slots[i].key, m->prefix, strlen(m->prefix))) {
            m->prefix = arena_printf(m->arena, "o%s", m->prefix);
            i = -1;
        }
}

static void collect(cmod *m) {
    for (int i = 0; i < m->m->funcs.n; i++) {
        lfunc *f = m->m->funcs.at[i];
        map_put(&m->symbols, f->name, "");
        map_put(&m->funcs, f->name, f);
        collect_block(m, f, f->body);
    }
    for (int i = 0; i < m->m->data.n; i++) {
        ldata *d = m->m->data.at[i];
        map_put(&m->symbols, d->name, "");
        map_put(&m->data, d->name, d);
        if (cdata_has_non_finite(m, d)) map_put(&m->by_bits, d->name, "");
    }
    choose_prefix(m);
}

// ---------------------------------------------------------------- functions

typedef struct cfunc_text {
    const lfunc *f;
    const char *body;
    const char **names; // of the parameters
} cfunc_text;

static const char *param_text(cmod *m, const lfunc *f, int i, const char *name) {
    const lparam *p = &f->params.at[i];
    const char *restricted = !f->noalias ? "" : m->dialect == DIALECT_C ? "restrict " : "__restrict__ ";
    if (p->type.kind == LK_PTR) {
        cptr t = cptr_of_param(p);
        return arena_printf(m->arena, "%s%s%s", cptr_text(m->arena, t),
                            t.kind == PTR_STRUCT ? "" : restricted, name);
    }
    const char *type = p->ctype ? p->ctype : ctype_name(p->type.kind, cparam_sign(p));
    return arena_printf(m->arena, "%s%s%s", type, *name ? " " : "", name);
}

static const char *linkage(cmod *m, const lfunc *f) {
    int64_t threads = 1;
    for (int i = 0; i < 3; i++) threads *= f->threads[i];
    if (m->dialect == DIALECT_CUDA) {
        if (!f->kernel) return f->exported ? "__device__ " : "static __device__ ";
        if (threads <= 0) return "extern \"C\" __global__ ";
        return arena_printf(m->arena, "extern \"C\" __global__ __launch_bounds__(%lld) ", (long long)threads);
    }
    if (!f->body) return "extern ";
    return f->exported || !map_get(&m->used, f->name) ? "" : "static ";
}

static const char *signature(cmod *m, const lfunc *f, const char *const *names) {
    text t = {.arena = m->arena};
    const char *result = f->ctype ? f->ctype : ctype_name(f->result.kind, SIGN_SIGNED);
    bool star = result[strlen(result) - 1] == '*';
    text_printf(&t, "%s%s%s%s(", linkage(m, f), result, star ? "" : " ", f->name);
    for (int i = 0; i < f->params.n; i++)
        text_printf(&t, "%s%s", i ? ", " : "", param_text(m, f, i, names ? names[i] : ""));
    text_add(&t, f->params.n ? ")" : "void)");
    return text_str(&t);
}

// Parameters are named first, so that they keep their names.
static void name_params(cfn *c, cfunc_text *t) {
    const lfunc *f = c->f;
    t->names = ARENA_ARRAY(c->mod->arena, const char *, f->params.n);
    for (int i = 0; i < f->params.n; i++) {
        const lparam *p = &f->params.at[i];
        cinfo *n = info_of(c, p->value);
        n->state = STATE_NAMED;
        n->sign = p->type.kind == LK_PTR ? SIGN_SIGNED : cparam_sign(p);
        t->names[i] = n->name = arena_strdup(c->mod->arena, cname_new(c, p->name, "x"));
    }
}

static void emit_function(cmod *m, cfunc_text *t) {
    arena *a = arena_within(m->arena);
    cfn c = {.mod = m, .f = t->f, .arena = a};
    text out = {.arena = m->arena};
    c.out = &out;
    c.info = ARENA_ARRAY(a, cinfo, t->f->nins);
    c.names.arena = c.stems.arena = a;
    ctext_plan(&c);
    name_params(&c, t);
    cstmt_function(&c);
    arena_destroy(a);
    t->body = text_str(&out);
}

static bool is_libc(const char *name) {
    return !strcmp(name, "memcpy") || !strcmp(name, "memmove") || !strcmp(name, "memset") ||
           !strcmp(name, "memcmp");
}

// Prototypes of functions that are used before their definition, or only declared.
static void write_prototypes(cmod *m, const cfunc_text *t, int n, text *out) {
    size_t before = out->n;
    for (int i = 0; i < n; i++) {
        const lfunc *f = t[i].f;
        bool wanted = map_get(&m->early, f->name) && !is_libc(f->name) && !f->library;
        if (wanted) cstmt_wrap(out, 0, arena_printf(m->arena, "%s;", signature(m, f, t[i].names)));
    }
    if (out->n > before) text_add(out, "\n");
}

// ---------------------------------------------------------------- text

static void write_head(cmod *m, const char *header, text *t) {
    const lmodule *l = m->m;
    bool cuda = m->dialect == DIALECT_CUDA;
    text_printf(t, "// %s: made by onnxc.%s\n", l->name, cuda ? " Compile with --fmad=false." : "");
    if (!cuda) text_add(t, "// C99 or later. Not with -ffast-math, which drops NaNs and signed zeros.\n");
    if (header) text_printf(t, "#include \"%s\"\n", header);
    if (cuda) {
        text_printf(t, "%s\n", prelude_find("cuda_types")->c);
    } else {
        text_printf(
            t, "#include <float.h>\n#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n%s\n",
            m->memory ? "#include <string.h>\n" : "");
        text_printf(t, "%s\n%s\n%s\n", prelude_find("no_fast_math")->c, prelude_find("no_contraction")->c,
                    prelude_find("no_wide_floats")->c);
        if (m->doubles) text_printf(t, "%s\n", prelude_find("no_short_doubles")->c);
    }
    for (int i = 0; i < l->preamble.n; i++) text_printf(t, "%s\n", l->preamble.at[i]);
    if (l->preamble.n) text_add(t, "\n");
}

static void write_all(cmod *m, const char *header, const cfunc_text *t, const sink *out) {
    text products = {.arena = m->arena}, head = {.arena = m->arena}, rest = {.arena = m->arena};
    for (int i = 0; i < m->warpgroup.n; i++)
        text_add(&products,
                 cwarpgroup_function(m->arena, m->warpgroup.slots[i].key, m->warpgroup.slots[i].value));
    const char *help =
        prelude_text(m->arena, m->dialect == DIALECT_CUDA, m->prefix, &m->helpers, text_str(&products));
    if (strstr(help, "memcpy")) m->memory = true;
    if (strstr(help, "double")) m->doubles = true;
    write_head(m, header, &head);
    sink_addn(out, head.s, head.n);
    sink_add(out, help);
    for (int i = 0; i < m->m->data.n; i++) cdata_write(m, m->m->data.at[i], out);
    sink_add(out, library_text(m->arena, m->m));
    write_prototypes(m, t, m->m->funcs.n, &rest);
    sink_addn(out, text_str(&rest), rest.n);
    for (int i = 0; i < m->m->funcs.n; i++) {
        const lfunc *f = t[i].f;
        if (!f->body) continue;
        text one = {.arena = m->arena};
        ccomment(&one, 0, c_short_names(one.arena, f->comment));
        cstmt_wrap(&one, 0, signature(m, f, t[i].names));
        one.s[one.n - 1] = ' '; // instead of the newline: the body begins with {
        text_add(&one, t[i].body);
        text_add(&one, i + 1 < m->m->funcs.n ? "\n" : "");
        sink_addn(out, one.s, one.n);
    }
}

void ctext_emit(const lmodule *l, dialect dialect, const char *header, const sink *out, diag *d) {
    arena *a = arena_within(d->arena);
    cmod m = {.m = l, .dialect = dialect, .arena = a, .d = d};
    m.symbols.arena = m.funcs.arena = m.data.arena = m.used.arena = m.helpers.arena = m.warpgroup.arena =
        m.defined.arena = m.early.arena = m.by_bits.arena = a;
    collect(&m);
    cfunc_text *t = ARENA_ARRAY(a, cfunc_text, l->funcs.n);
    for (int i = 0; i < l->funcs.n; i++) {
        t[i].f = l->funcs.at[i];
        map_put(&m.defined, t[i].f->body ? t[i].f->name : "", "");
        if (t[i].f->body) emit_function(&m, &t[i]);
    }
    write_all(&m, header, t, out);
    arena_destroy(a);
}

void ctext_write(const lmodule *m, const char *header, const sink *out, diag *d) {
    ctext_emit(m, DIALECT_C, header, out, d);
}
