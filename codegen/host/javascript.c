// In: a linked WebAssembly module and the interface of its model. Out: codegen/host/loader.js after what it needs of the
// model: its name, the element types of its tensors, and the module in base64; or declarations for TypeScript.
#include "codegen/host/javascript.h"
#include "compiler/base/json.h"
#include "ir/kernel/program.h"
#include <string.h>

// ---------------------------------------------------------------- element types
// The array for elements of a type of C.
static const char *array_of(dtype t) {
    static const char *const arrays[][2] = {
        {"float", "Float32Array"},    {"double", "Float64Array"},  {"uint8_t", "Uint8Array"},
        {"int8_t", "Int8Array"},      {"uint16_t", "Uint16Array"}, {"int16_t", "Int16Array"},
        {"uint32_t", "Uint32Array"},  {"int32_t", "Int32Array"},   {"uint64_t", "BigUint64Array"},
        {"int64_t", "BigInt64Array"}, {"onnxc_string", "Array"},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (strcmp(arrays[i][0], dtype_c(t)) == 0) return arrays[i][1];
    return NULL;
}

// Stored as bits in integers, or packed.
static bool is_raw(dtype t) { return dtype_bits(t) < 8 || (dtype_is_float(t) && dtype_bits(t) < 32); }

static void add_formats(text *t, const interface *io) {
    enum { POINTER_PAIR = 64 }; // a string in 32-bit memory
    bool known[DT_COUNT] = {false};
    text_add(t, "// By ONNX's number of the element type; raw: the array holds the bits of the "
                "elements.\nconst FORMATS = {");
    for (int j = 0; j < io->nin + io->nout; j++) {
        dtype e = (j < io->nin ? &io->in[j] : &io->out[j - io->nin])->buffer->dtype;
        if (known[e]) continue;
        known[e] = true;
        text_printf(t, "\n  %d: { dtype: \"%s\", array: %s, bits: %d, raw: %s },", (int)e, dtype_name(e),
                    array_of(e), e == DT_STRING ? POINTER_PAIR : dtype_bits(e), is_raw(e) ? "true" : "false");
    }
    text_add(t, "\n};\n");
}

// ---------------------------------------------------------------- checks
static void check_tensor(diag *d, const io_tensor *t, const char *what) {
    if (t->buffer->holds)
        diag_fatal_missing(d, NULL, "--emit=js: %s '%s' is %s, and JavaScript passes tensors only", what,
                           t->original, type_text(d->arena, t->buffer->holds));
    if (t->growth)
        diag_fatal_missing(d, NULL,
                           "--emit=js: '%s' is a state that grows, which JavaScript cannot keep so far",
                           t->original);
}

void javascript_check(diag *d, const build *b) {
    const interface *io = b->io;
    for (int j = 0; j < io->nin; j++) check_tensor(d, &io->in[j], "input");
    for (int j = 0; j < io->nout; j++) check_tensor(d, &io->out[j], "output");
    if (!io->generic)
        diag_fatal_missing(d, NULL, "--emit=js with --freestanding is not supported by this build");
    if (io->hook_user) diag_fatal_missing(d, NULL, "--emit=js with --hook is not supported by this build");
}

// ---------------------------------------------------------------- texts
static const char *quoted(arena *a, const char *s) {
    json j = json_new(a);
    json_text(&j, NULL, s);
    return json_done(&j);
}

// One line that no comment of JavaScript ends in.
static const char *comment_text(arena *a, const char *s) {
    char *c = arena_strdup(a, s ? s : "");
    for (char *p = c; *p; p++) {
        if ((unsigned char)*p < 32 || *p == 127) *p = ' ';
        if (*p == '/' && p > c && p[-1] == '*') *p = '|';
        if (!strncmp(p, "\xe2\x80\xa8", 3) || !strncmp(p, "\xe2\x80\xa9", 3))
            memset(p, ' ', 3); // they end a line
    }
    return c;
}

static void head(text *t, const build *b, const program *p, const char *extension) {
    text_printf(
        t,
        "// %s%s: made by onnxc from the model '%s'. docs/wasm.md of onnxc has the rules for all models.\n",
        b->io->name, extension, comment_text(t->arena, p->module->name));
}

// ---------------------------------------------------------------- the module
static void write_base64(bytes b, const sink *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *s = b.at;
    for (size_t i = 0; i < b.n; i += 3) {
        size_t left = b.n - i;
        unsigned v =
            (unsigned)s[i] << 16 | (left > 1 ? (unsigned)s[i + 1] << 8 : 0) | (left > 2 ? s[i + 2] : 0);
        char four[4] = {digits[v >> 18], digits[v >> 12 & 63], digits[v >> 6 & 63], digits[v & 63]};
        if (left < 3) four[3] = '=';
        if (left < 2) four[2] = '=';
        sink_addn(out, four, 4);
    }
}

void javascript_write(arena *a, const build *b, const program *p, bytes wasm, const sink *out) {
    text t = {.arena = a};
    head(&t, b, p, ".js");
    text_printf(&t, "const NAME = \"%s\";\n", b->io->name);
    add_formats(&t, b->io);
    sink_addn(out, t.s, t.n);
    sink_add(out, javascript_loader);
    sink_add(out, "\nconst CODE = \"");
    write_base64(wasm, out);
    sink_add(out, "\";\n");
}

// ---------------------------------------------------------------- types
static const char *data_type(arena *a, dtype e) {
    return e == DT_STRING ? "string[]" : arena_printf(a, "%s", array_of(e));
}

static void add_tensor(text *t, const io_tensor *x, bool is_input) {
    arena *a = t->arena;
    dtype e = x->buffer->dtype;
    text shape = {.arena = a};
    for (int j = 0; j < x->buffer->rank; j++)
        text_printf(&shape, "%s%s", j ? ", " : "", dim_text(a, x->buffer->dims[j]));
    text_printf(t, "  /** %s[%s] */\n  %s%s: ", dtype_name(e), comment_text(a, text_str(&shape)),
                quoted(a, x->original), is_input && x->buffer->fallback ? "?" : "");
    if (is_input)
        text_printf(t, "Input<%s, %s>;\n", data_type(a, e),
                    is_raw(e)                                ? "never"
                    : e == DT_STRING                         ? "string"
                    : dtype_bits(e) == 64 && dtype_is_int(e) ? "number | bigint"
                    : e == DT_BOOL                           ? "number | boolean"
                                                             : "number");
    else text_printf(t, "Tensor<%s>;\n", data_type(a, e));
}

void javascript_write_types(arena *a, const build *b, const program *p, const sink *out) {
    const interface *io = b->io;
    text t = {.arena = a};
    head(&t, b, p, ".d.ts");
    text_add(&t, "export interface Tensor<T> {\n  data: T;\n  dims: number[];\n}\n"
                 "export type Input<T, E> = T | ArrayLike<E> | { data: T | ArrayLike<E>; dims?: "
                 "ArrayLike<number> };\n\n"
                 "export interface Inputs {\n");
    for (int j = 0; j < io->nin; j++) add_tensor(&t, &io->in[j], true);
    text_add(&t, "}\n\nexport interface Outputs {\n");
    for (int j = 0; j < io->nout; j++) add_tensor(&t, &io->out[j], false);
    text_add(&t, "}\n\n"
                 "/** A dim is a number, or the text of a symbolic size. */\n"
                 "export interface TensorInfo {\n  name: string;\n  dtype: string;\n  dims: (number | "
                 "string)[];\n  optional: boolean;\n}\n\n"
                 "export interface Model {\n"
                 "  readonly name: string;\n"
                 "  readonly inputs: TensorInfo[];\n"
                 "  readonly outputs: TensorInfo[];\n"
                 "  readonly metadata: Record<string, string>;\n"
                 "  run(inputs: Inputs): Outputs;\n"
                 "}\n\n"
                 "/** A run or a load that failed; `code` is the name of the status in onnxc.h without its "
                 "prefix. */\n"
                 "export class ModelError extends Error {\n  code: string;\n}\n\n"
                 "export interface LoadOptions {\n"
                 "  /** From compile(), to share machine code with workers. */\n"
                 "  module?: WebAssembly.Module;\n"
                 "  /** Contents or address of the weights file; by default it is beside this module. */\n"
                 "  weights?: ArrayBuffer | ArrayBufferView | string | URL;\n"
                 "}\n\n"
                 "export function compile(): Promise<WebAssembly.Module>;\n"
                 "/** Makes an instance with memory of its own. */\n"
                 "export function load(options?: LoadOptions): Promise<Model>;\n"
                 "export default load;\n");
    sink_addn(out, t.s, t.n);
}
