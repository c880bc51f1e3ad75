// The operators of this build as text; or, in Markdown, all operators of the standard, with those of this
// build marked, and notes on their meaning (operators_notes.md).
#include "compiler/cli/command.h"
#include "ir/graph/absent.h"
#include "ir/graph/op.h"
#include <stdlib.h>
#include <string.h>

// Operators without a lowering are decomposed by their upgrade or expansion.
static bool is_supported(const op_def *op) {
    return op &&
           (op->lower || op->expand || op->decompose || op->is_view || (op->upgrades[0].since && !op->infer));
}

static void add_versions(text *t, const schema_op *s, const char *between) {
    for (int j = 0; j < s->nversions; j++) text_printf(t, "%s%d", j ? between : "", s->versions[j].since);
}

static int by_domain_and_name(const void *a, const void *b) {
    const op_def *x = *(const op_def *const *)a, *y = *(const op_def *const *)b;
    int order = strcmp(x->domain, y->domain);
    return order ? order : strcmp(x->name, y->name);
}

const char *list_ops_text(arena *a) {
    text t = {.arena = a};
    const op_def **sorted = ARENA_ARRAY(a, const op_def *, op_count());
    for (int i = 0; i < op_count(); i++) sorted[i] = op_at(i);
    qsort(sorted, (size_t)op_count(), sizeof *sorted, by_domain_and_name);
    for (int i = 0; i < op_count(); i++) {
        const op_def *op = sorted[i];
        const schema_op *s = schema_find(op->domain, op->name);
        if (!s || !is_supported(op)) continue; // passes build onnxc's own operators, which have no schema
        text_printf(&t, "%s%s%-24s ", op->domain, *op->domain ? "." : "", op->name);
        add_versions(&t, s, ",");
        text_add(&t, "\n");
    }
    return text_str(&t);
}

// ---------------------------------------------------------------- Markdown
#define T(t) SCHEMA_TENSOR(DT_##t)
static const struct type_group {
    const char *name;
    uint64_t types;
} groups[] = {
    {"floats", T(F16) | T(BF16) | T(F32) | T(F64)},
    {"ints", T(I8) | T(I16) | T(I32) | T(I64) | T(U8) | T(U16) | T(U32) | T(U64)},
    {"float8", T(F8E4M3FN) | T(F8E4M3FNUZ) | T(F8E5M2) | T(F8E5M2FNUZ)},
    {"complex", T(C64) | T(C128)},
};
static const char introduction[] =
    "# Operators\n"
    "\n"
    "This page is the output of `onnxc --list-ops=markdown`; `test/run_docs.py` compares the two.\n"
    "\n"
    "Supported operators are marked *yes*, in all their versions. Older versions are converted to the\n"
    "newest one when the model is read. A model with other operators, or with newer versions, is\n"
    "refused with exit code 2, and all unsupported operators are listed at once.\n"
    "\n"
    "The domains of com.microsoft are operators that ONNX Runtime adds to the standard, and that its\n"
    "optimizer, quantizer and model builders write. Those of qonnx.custom_op, which quantise to any\n"
    "number of bits, are those of [QONNX](https://github.com/fastmachinelearning/qonnx); Brevitas writes\n"
    "them, and onnx.brevitas and finn.custom_op.general are older names of qonnx.custom_op.general. TRT\n"
    "has operators and plug-ins of TensorRT, which exporters write in the domains trt and trt.plugins,\n"
    "and in the standard's.\n"
    "\n"
    "The element types are those of the standard, by type variable, with a row for the versions that\n"
    "have the same ones. All of them are supported; nodes of older versions may also have the types of\n"
    "the newest. [What has no meaning](#what-has-no-meaning) names the exceptions. *floats* are float16,\n"
    "bfloat16, float and double; *ints* are int8 to int64 and uint8 to uint64; *float8* are e4m3fn,\n"
    "e4m3fnuz, e5m2 and e5m2fnuz; *complex* are complex64 and complex128; *containers* are sequences,\n"
    "optionals and maps. A sparse tensor is a dense one here: callers pass all its elements.\n";

static void add_types(text *t, uint64_t types) {
    uint64_t tensors = types & UINT64_C(0xffffffff);
    const char *space = "";
    for (size_t j = 0; j < sizeof groups / sizeof *groups; j++) {
        if ((tensors & groups[j].types) != groups[j].types) continue;
        text_printf(t, "%s%s", space, groups[j].name);
        tensors &= ~groups[j].types;
        space = " ";
    }
    for (int d = 1; d < DT_COUNT; d++) {
        if (!(tensors & SCHEMA_TENSOR(d))) continue;
        text_printf(t, "%s%s", space, dtype_name((dtype)d));
        space = " ";
    }
    if (types >> 32) text_printf(t, "%scontainers", space);
}

static bool same_types(const schema_version *a, const schema_version *b) {
    bool same = a->nvars == b->nvars;
    for (int j = 0; same && j < a->nvars; j++)
        same = a->type_vars[j].types == b->type_vars[j].types &&
               strcmp(a->type_vars[j].name, b->type_vars[j].name) == 0;
    return same;
}

// Rows for the versions of an operator, the newest first; versions with the same types share one.
static void add_rows(text *t, const schema_op *s) {
    const char *name = s->name, *supported = is_supported(op_find(s->domain, s->name)) ? "yes" : "";
    for (int last = s->nversions - 1, first; last >= 0; last = first - 1) {
        const schema_version *v = &s->versions[last];
        bool deprecated = v->deprecated;
        if (deprecated && last > 0) v = &s->versions[last - 1]; // the types are in the version before
        for (first = last; first > 0 && same_types(&s->versions[first - 1], v);) first--;
        text_printf(t, "| %s | %s | ", name, supported);
        for (int j = first; j <= last; j++)
            text_printf(t, "%s%d", j > first ? " " : "", s->versions[j].since);
        text_add(t, deprecated ? " (deprecated) | " : " | ");
        for (int j = 0; j < v->nvars; j++) {
            text_printf(t, "%s%s: ", j ? "; " : "", v->type_vars[j].name);
            add_types(t, v->type_vars[j].types);
        }
        text_add(t, " |\n");
        name = supported = "";
    }
}

static void add_absent(text *t, const char *domain) {
    const char *start = "\nOn purpose not supported:\n\n";
    for (int i = 0; i < schema_count(); i++) {
        const schema_op *s = schema_at(i);
        const char *hint = strcmp(s->domain, domain) == 0 ? absent_hint(domain, s->name) : NULL;
        if (!hint || is_supported(op_find(domain, s->name))) continue;
        text_printf(t, "%s- %s: %s\n", start, s->name, hint);
        start = "";
    }
}

static void add_domain(text *t, const char *domain) {
    int have = 0, all = 0;
    for (int i = 0; i < schema_count(); i++) {
        const schema_op *s = schema_at(i);
        if (strcmp(s->domain, domain) != 0) continue;
        all++;
        have += is_supported(op_find(domain, s->name));
    }
    text_printf(t, "\n## %s\n\n%d of %d operators, up to version %d.\n\n", *domain ? domain : "ai.onnx", have,
                all, schema_newest_opset(domain));
    text_add(t, "| operator | supported | versions | element types |\n| --- | --- | --- | --- |\n");
    for (int i = 0; i < schema_count(); i++)
        if (strcmp(schema_at(i)->domain, domain) == 0) add_rows(t, schema_at(i));
    add_absent(t, domain);
}

// The table of the standard is sorted by domain.
const char *list_ops_markdown(arena *a) {
    text t = {.arena = a};
    text_add(&t, introduction);
    for (int i = 0; i < schema_count(); i++)
        if (i == 0 || strcmp(schema_at(i)->domain, schema_at(i - 1)->domain) != 0)
            add_domain(&t, schema_at(i)->domain);
    text_add(&t, operators_notes);
    return text_str(&t);
}
