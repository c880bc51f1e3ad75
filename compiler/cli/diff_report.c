// In: sections of differences. Out: text, or JSON.
#include "compiler/base/json.h"
#include "compiler/cli/diff.h"
#include <math.h>

diff_section *diff_begin(diff *d, const char *name) {
    diff_section *s = ARENA_NEW(d->arena, diff_section);
    *s = (diff_section){.name = name};
    VEC_PUSH(d->arena, &d->sections, s);
    return s;
}

void diff_add(diff *d, diff_section *s, diff_item item) {
    s->differs |= item.sign != ' ';
    VEC_PUSH(d->arena, &s->items, item);
}

static void add_section(text *t, const diff_section *s) {
    text_printf(t, "%s:", s->name);
    if (s->summary) text_printf(t, " %s", s->summary);
    text_add(t, s->items.n || s->summary ? "\n" : " the same\n");
    for (int i = 0; i < s->items.n; i++) {
        const diff_item *x = &s->items.at[i];
        const char *said = safe_text(t->arena, x->text), *name = safe_text(t->arena, x->name ? x->name : "");
        text_printf(t, "  %c ", x->sign);
        if (x->kind[0] == 'n') text_printf(t, "%s\n", said); // nodes and notes say their names
        else if (x->kind[0] == 'f') text_printf(t, "%s: %s\n", name, said);
        else text_printf(t, "%s %s: %s\n", x->kind, name, said);
    }
}

const char *diff_text(diff *d) {
    text t = {.arena = d->arena};
    text_printf(&t, "--- %s\n+++ %s\n", d->side[0].path, d->side[1].path);
    for (int i = 0; i < d->sections.n; i++) add_section(&t, d->sections.at[i]);
    return text_str(&t);
}

static void add_item(json *j, const diff_item *x) {
    const char *change = x->sign == '-'   ? "removed"
                         : x->sign == '+' ? "added"
                         : x->sign == '~' ? "changed"
                                          : "none";
    json_open(j, NULL, '{');
    json_text(j, "change", change);
    json_text(j, "kind", x->kind);
    json_text(j, "name", x->name);
    json_text(j, "text", x->text);
    if (x->numbers) {
        json_int(j, "elements", x->numbers->count);
        json_int(j, "differing", x->numbers->differing);
        json_number(j, "max_abs", x->numbers->max_abs);
        json_number(j, "max_rel", x->numbers->max_rel);
        json_number(j, "snr_db", x->snr);
    }
    json_close(j, '}');
}

const char *diff_json(diff *d) {
    json j = json_new_indented(d->arena);
    bool differs = false;
    json_open(&j, NULL, '{');
    json_text(&j, "a", d->side[0].path);
    json_text(&j, "b", d->side[1].path);
    for (int i = 0; i < d->sections.n; i++) {
        const diff_section *s = d->sections.at[i];
        differs |= s->differs;
        json_open(&j, s->name, '{');
        json_bool(&j, "differs", s->differs);
        json_text(&j, "summary", s->summary);
        json_open(&j, "items", '[');
        for (int k = 0; k < s->items.n; k++) add_item(&j, &s->items.at[k]);
        json_close(&j, ']');
        json_close(&j, '}');
    }
    json_bool(&j, "differs", differs);
    json_close(&j, '}');
    return arena_printf(d->arena, "%s\n", json_done(&j));
}
