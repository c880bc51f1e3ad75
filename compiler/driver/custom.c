// In: --custom-op DOMAIN::NAME=SYMBOL,... Out: its operators.
#include "compiler/driver/custom.h"
#include "compiler/driver/formats.h"
#include "compiler/driver/pipeline.h"
#include <stdlib.h>
#include <string.h>

static bool parse_word(custom_op *c, const char *word) {
    static const char with_size[] = "workspace=";
    char *end;
    if (strcmp(word, "same") == 0) c->same = true;
    else if (strcmp(word, "shape") == 0) c->shape = true;
    else if (strcmp(word, "workspace") == 0) c->workspace = true;
    else if (strncmp(word, with_size, sizeof with_size - 1) == 0) {
        const char *number = word + sizeof with_size - 1;
        if (!*number || strspn(number, "0123456789") != strlen(number)) return false;
        c->workspace_bytes = strtoll(number, &end, 10);
        return c->workspace_bytes <= INT64_C(1) << 40;
    } else return false;
    return true;
}

static bool parse_custom(arena *a, diag *d, const char *said, custom_op *c) {
    const char *equals = strchr(said, '='), *colons = strstr(said, "::");
    *c = (custom_op){0};
    if (!equals || !colons || colons > equals || colons == said || colons + 2 == equals) {
        diag_error(d, NULL, "--custom-op=%s: expected DOMAIN::NAME=SYMBOL", said);
        return false;
    }
    c->domain = arena_strndup(a, said, (size_t)(colons - said));
    if (strcmp(c->domain, "ai.onnx") == 0) c->domain = "";
    c->name = arena_strndup(a, colons + 2, (size_t)(equals - colons - 2));
    string_list words = split_words(a, equals + 1, ',');
    c->symbol = words.n ? words.at[0] : "";
    for (int i = 1; i < words.n; i++) {
        if (parse_word(c, words.at[i])) continue;
        diag_error(d, NULL, "--custom-op=%s: '%s' is not same, shape, workspace or workspace=BYTES", said,
                   words.at[i]);
        return false;
    }
    return true;
}

static void check_one(arena *a, diag *d, const options *o, int i, custom_op *all) {
    custom_op *c = &all[i];
    if (!parse_custom(a, d, o->custom_op.at[i], c)) return;
    check_symbol(d, "--custom-op", c->symbol);
    if (o->hook && strcmp(o->hook, c->symbol) == 0)
        diag_error(d, NULL, "--custom-op '%s': the hook has the same name", c->symbol);
    if (op_find(c->domain, c->name))
        diag_error(d, NULL, "--custom-op=%s: onnxc has operator %s itself", o->custom_op.at[i], c->name);
    for (int j = 0; j < i; j++)
        if (all[j].name && strcmp(all[j].name, c->name) == 0 && strcmp(all[j].domain, c->domain) == 0)
            diag_error(d, NULL, "--custom-op=%s: operator %s is given twice", o->custom_op.at[i], c->name);
}

void check_custom_ops(arena *a, diag *d, const options *o) {
    custom_op *all = ARENA_ARRAY(a, custom_op, o->custom_op.n + 1);
    const format *f = format_of_options(o);
    for (int i = 0; i < o->custom_op.n; i++) check_one(a, d, o, i, all);
    if (!o->custom_op.n) return;
    if (options_for_gpu(o) || options_for_both(o))
        diag_missing(d, NULL,
                     "--custom-op with CUDA is not supported by this build: its functions run on the CPU");
    if (f && (strcmp(f->name, "exe") == 0 || strcmp(f->name, "shared") == 0))
        diag_missing(d, NULL,
                     "--custom-op: --emit=%s is not supported: make an object or an archive and link it with "
                     "your functions",
                     f->name);
    if (o->runner) diag_missing(d, NULL, "--custom-op with --runner is not supported by this build");
}

const op_def *const *custom_ops(arena *a, diag *d, const options *o) {
    const op_def **ops = ARENA_ARRAY(a, const op_def *, o->custom_op.n + 1);
    custom_op c;
    for (int i = 0; i < o->custom_op.n; i++)
        if (parse_custom(a, d, o->custom_op.at[i], &c)) ops[i] = custom_op_new(a, c);
    return ops;
}
