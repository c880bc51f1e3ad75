// The table of choices, keyed by the outline of a kernel and its target.
#include "passes/schedule/common/choices.h"
#include <string.h>

const choice_field choice_fields[] = {
#define X(name, values, words) {#name, words, values, offsetof(choices, name)},
    CHOICES(X)
#undef X
        {NULL},
};

// Word i of "a|b|c".
static void add_word(text *t, const char *words, int i) {
    while (i-- > 0) words = strchr(words, '|') + 1;
    text_addn(t, words, strcspn(words, "|"));
}

const char *choices_text(arena *a, const choices *c) {
    text t = {.arena = a};
    choices all = *c;
    for (const choice_field *f = choice_fields; f->name; f++) {
        int v = *choice_at(&all, f);
        if (!v) continue;
        text_printf(&t, "%s%s=", t.n ? ", " : "", f->name);
        if (f->words) add_word(&t, f->words, v - 1);
        else text_printf(&t, "%d", v);
    }
    return t.n ? text_str(&t) : "as the model says";
}

choice_table *choice_table_new(arena *a) {
    choice_table *t = ARENA_NEW(a, choice_table);
    *t = (choice_table){.arena = a, .entries.arena = a};
    return t;
}

const char *kernel_key(arena *a, const kernel *k) {
    return arena_printf(a, "%016llx", (unsigned long long)hash_string(HASH_SEED, kernel_outline(a, k)));
}

const char *target_key(arena *a, const target *t) {
    static const char *const fp[] = {[FP_STRICT] = "strict", [FP_DEFAULT] = "default", [FP_FAST] = "fast"};
    const struct {
        const char *word;
        bool is;
    } facts[] = {{"fma", t->fma},          {"f16c", t->f16_convert}, {"round", t->round_instr},
                 {"vnni", t->vnni},        {"avx512", t->avx512},    {"amx", t->amx_int8},
                 {"amxbf16", t->amx_bf16}, {"i8mm", t->i8mm},        {"bf16mm", t->bf16mm},
                 {"dsp", t->dsp},          {"masked", t->masked}};
    text s = {.arena = a};
    text_printf(&s, "%s %s, %d bits, %d vectors of %d bits", t->arch.name, t->cpu && *t->cpu ? t->cpu : "any",
                t->ptr_bits, t->vector_regs, t->vector_bits);
    for (size_t j = 0; j < sizeof facts / sizeof *facts; j++)
        if (facts[j].is) text_printf(&s, " %s", facts[j].word);
    text_printf(&s, ", fp %s, O%d, size %d, threads %d%s", fp[t->fp], t->opt, t->size_level, t->threads,
                t->freestanding ? ", freestanding" : "");
    return text_str(&s);
}

static const char *place(arena *a, const char *kernel, const char *target) {
    return arena_printf(a, "%s %s", kernel, target);
}

void choice_table_put(choice_table *t, const choice_entry *x) {
    choice_entry *own = ARENA_NEW(t->arena, choice_entry);
    *own = *x;
    own->kernel = arena_strdup(t->arena, x->kernel);
    own->target = arena_strdup(t->arena, x->target);
    own->about = arena_strdup(t->arena, x->about ? x->about : "");
    map_put(&t->entries, place(t->arena, x->kernel, x->target), own);
}

// NULL: none.
static choice_entry *choice_table_find(const choice_table *t, const kernel *k, const target *for_target) {
    arena *scratch = arena_new();
    choice_entry *found =
        map_get(&t->entries, place(scratch, kernel_key(scratch, k), target_key(scratch, for_target)));
    arena_destroy(scratch);
    return found;
}

const choices *choices_of(const target *t, const kernel *k) {
    static const choices none;
    if (!t || !t->choices) return &none;
    if (t->choices->of) return t->choices->of;
    choice_entry *x = choice_table_find(t->choices, k, t);
    if (!x) return &none;
    x->used = true;
    return &x->c;
}
