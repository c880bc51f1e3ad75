// Outputs: runs the pipeline as far as the format needs, then its writer, header and dependency file.
#include "compiler/output/output.h"
#include "codegen/c/ctext.h"
#include "codegen/c/cuda.h"
#include "codegen/host/example.h"
#include "codegen/host/header.h"
#include "codegen/host/javascript.h"
#include "codegen/llvm/llvm.h"
#include "codegen/object/elf.h"
#include "codegen/object/link.h"
#include "codegen/object/object.h"
#include "codegen/object/stack.h"
#include "compiler/base/fs.h"
#include "compiler/base/outfile.h"
#include "compiler/base/process.h"
#include "compiler/driver/budget.h"
#include "compiler/driver/formats.h"
#include "compiler/driver/gpu_images.h"
#include "compiler/driver/pass_run.h"
#include "compiler/import/file.h"
#include "compiler/import/text/text_write.h"
#include "compiler/output/example_search.h"
#include "compiler/output/onnx_write.h"
#include "compiler/report/report.h"
#include "ir/kernel/program.h"
#include "ir/loops/weights.h"
#include "runtime-lite/core/runtime.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

int access(const char *path, int mode); // of unistd.h
enum { R_OK = 4 };

// Arguments of the pass that writes.
typedef struct writer {
    const format *f;
    const char *path, *header; // of the main output, NULL: it goes to
    bytes *memory;
} writer;

static bytes asm_code(pipeline *p) { return llvm_emit(p->loops, EMIT_ASM, p->arena, p->diag); }
static bytes llvm_ir_code(pipeline *p) { return llvm_emit(p->loops, EMIT_LLVM_IR, p->arena, p->diag); }
static bytes bitcode(pipeline *p) { return llvm_emit(p->loops, EMIT_BITCODE, p->arena, p->diag); }
// Of the object alone: what the runtime library adds is not known before it is linked.
static void note_stack(pipeline *p, bytes object) {
    stack_use use = stack_of_object(p->arena, p->diag, object, p->loops, p->options->hook);
    build *b = p->build;
    b->stack = use.bytes;
    b->stack_note = use.why;
    if (use.bytes < 0 && !p->target->freestanding)
        b->stack = 0; // functions of the system have no known limit
    if (use.bytes < 0) return;
    if (use.library)
        b->stack_note =
            arena_printf(p->arena, "with %lld bytes for functions of the C library", (long long)use.library);
    if (use.others)
        b->stack_note = arena_printf(p->arena, "%s%sbesides that of %s", use.library ? b->stack_note : "",
                                     use.library ? " and " : "", use.others);
}

// Microcontrollers run one model at a time, from memory without caches: their cycles can be foreseen.
static void note_cost(pipeline *p) {
    build *b = p->build;
    if (!p->target->freestanding || b->nversions) return;
    b->cost = run_cost_estimate(p->loops, arena_printf(p->arena, "%s_run", b->io->name), p->arena, p->diag);
}

// WebAssembly has additional forms, and lacks some.
static void check_form(const pipeline *p) {
    bool wasm = p->target->arch.is_wasm, wasi = strstr(p->target->triple, "wasi");
    const writer *w = p->writer;
    const format *f = w ? w->f : NULL;
    if (!f) return;
    if ((f->id == FORMAT_WASM || f->id == FORMAT_JS) && !wasm)
        diag_fatal(p->diag, NULL, "--emit=%s is for WebAssembly (--target=wasm32), not for %s", f->name,
                   p->target->triple);
    if (!wasm) return;
    if (f->id == FORMAT_SHARED || f->id == FORMAT_EXAMPLE)
        diag_fatal_missing(p->diag, NULL,
                           "--emit=%s for WebAssembly is not supported: --emit=wasm makes a module, "
                           "--emit=js one with its loader",
                           f->name);
    if (f->id == FORMAT_EXE && !wasi)
        diag_fatal_missing(p->diag, NULL,
                           "--emit=exe needs an operating system: --target=wasm32-wasi makes a WASI command");
}

static bytes object_code(pipeline *p) {
    check_form(p);
    emit_means by = pipeline_means(p);
    elf_check_data(p->diag, p->loops); // before machine code, which takes time
    bytes object = llvm_emit_object(p->loops, &by, p->arena, p->diag);
    if (p->build) note_stack(p, object), note_object_calls(p, object), note_cost(p);
    check_flash(p, object);
    return object;
}
void output_header(pipeline *p, const sink *to) { header_write(p->build, p->program, to); }
static void write_code(pipeline *p, const sink *to) { sink_addn(to, p->code.at, p->code.n); }
static void write_c(pipeline *p, const sink *to) { ctext_write(p->loops, p->header_name, to, p->diag); }
static void write_loops(pipeline *p, const sink *to) { sink_add(to, loops_text(p->arena, p->loops)); }

static void write_cuda(pipeline *p, const sink *to) { cuda_write(p->loops, to, p->diag); }

// Beside the program or the library, wherever an installed tree has them. %s: the target's folder.
static const char *installed_runtime(pipeline *p, const target *t, bool own) {
    static const char *const own_places[] = {"libonnxc-rt.a", "../lib/libonnxc-rt.a"};
    static const char *const places[] = {"../lib/%s/libonnxc-rt.a", "../%s/libonnxc-rt.a",
                                         "../lib/onnxc/%s/libonnxc-rt.a", "../onnxc/%s/libonnxc-rt.a",
                                         "../../lib/onnxc/%s/libonnxc-rt.a"};
    enum { OWN_PLACES = sizeof own_places / sizeof *own_places, PLACES = sizeof places / sizeof *places };
    const char *from = p->options->program_folder, *folder = target_runtime_folder(p->arena, t);
    for (int i = own ? 0 : OWN_PLACES; from && i < OWN_PLACES + (folder ? PLACES : 0); i++) {
        const char *place =
            i < OWN_PLACES ? own_places[i] : arena_printf(p->arena, places[i - OWN_PLACES], folder);
        const char *path = arena_printf(p->arena, "%s/%s", from, place);
        if (access(path, R_OK) == 0) return path;
    }
    return NULL;
}

const char *output_runtime(pipeline *p) {
    const options *o = p->options;
    if (o->runtime || !p->build->needs_runtime) return o->runtime;
    const target *own = target_from_options(p->arena, p->diag, &(target_options){.fp = FP_DEFAULT});
    const target *t = p->target->triple ? p->target : own; // C text: the target for which cc compiles it
    const char *path = installed_runtime(p, t, strcmp(own->triple, t->triple) == 0);
    if (path) return path;
    diag_hint(p->diag, "--runtime=FILE names the libonnxc-rt.a for that target%s",
              p->target->freestanding ? "; C text (-o NAME.c) does not need it" : "");
    diag_fatal_missing(p->diag, NULL, "the model needs onnxc's runtime library for %s, which was not found",
                       t->triple);
}

static link_options linking(pipeline *p) {
    return (link_options){.linker = p->options->linker,
                          .sysroot = p->options->sysroot,
                          .runtime = output_runtime(p),
                          .program_folder = p->options->program_folder};
}
// Freestanding objects have no undefined symbols: runtime functions that they call are linked in.
static void write_object(pipeline *p, const sink *to) {
    bytes object = p->code;
    if (p->target->freestanding && p->build->needs_runtime) {
        link_options o = linking(p);
        object = link_runtime(p->arena, p->diag, object, p->loops, &o);
    }
    object_write(p->arena, p->diag, object, p->loops, to);
}
static void link_lib(pipeline *p, const char *path) {
    link_options o = linking(p);
    link_archive(p->arena, p->diag, p->code, p->loops, &o, path);
}
static void link_so(pipeline *p, const char *path) {
    if (p->target->freestanding && !p->options->freestanding) { // a bare machine
        diag_hint(p->diag,
                  "link an object (-o NAME.o) or an archive (-o NAME.a) with a program for the target");
        diag_fatal(p->diag, NULL, "--emit=shared: %s has no operating system that loads shared libraries",
                   p->target->triple);
    }
    link_options o = linking(p);
    link_shared(p->arena, p->diag, p->code, p->loops, &o, path);
}

// int main(int argc, char **argv) { onnxc_model m = {descriptor, run, workspace, open, close};
// return onnxc_program(&m, argc, argv); }
static void add_main(pipeline *p) {
    lfunc *f = lfunc_new(p->loops, "main", lt(LK_I32, 1));
    f->exported = true;
    ins *argc = lfunc_param(f, "argc", lt(LK_I32, 1), LK_VOID, DT_I32, false);
    ins *argv = lfunc_param(f, "argv", lt_ptr(), LK_PTR, DT_NONE, false);
    lbuild b = lbuild_new(f, p->target, p->diag);
    ins *model = lb_local(&b, LK_PTR, 5, 0, false);
    static const char *const parts[] = {"descriptor", "run_generic", "workspace_generic", "open", "close"};
    for (int i = 0; i < 5; i++) {
        const char *symbol = arena_printf(p->arena, "%s_%s", p->build->io->name, parts[i]);
        bool there = i < 3 || p->build->io->opens;
        lb_store(&b, model, lb_idx(&b, i), there ? lb_symbol(&b, symbol) : lb_null(&b), 0);
    }
    lb_return(&b, lb_call(&b, lt(LK_I32, 1), "onnxc_program", 3, (ins *[]){model, argc, argv}));
}

static bytes program_code(pipeline *p) {
    if (p->target->freestanding) {
        diag_hint(p->diag, "link an object (-o NAME.o) with a main function for the target");
        diag_fatal(p->diag, NULL,
                   "--emit=exe: a program needs an operating system, and the code is freestanding");
    }
    if (!p->build->io->generic)
        diag_fatal_missing(p->diag, NULL, "--emit=exe: programs for %s are not supported by this build",
                           p->target->triple);
    add_main(p);
    p->build->needs_runtime = true;
    return object_code(p);
}
static void link_exe(pipeline *p, const char *path) {
    link_options o = linking(p);
    link_program(p->arena, p->diag, p->code, p->loops, &o, path);
}

// The module is linked into a file first.
static void write_js(pipeline *p, const sink *to) {
    const char *path =
        arena_printf(p->arena, "%s/%s.wasm", temporary_folder(p->arena, p->diag), p->build->io->name);
    javascript_check(p->diag, p->build);
    link_so(p, path);
    mapped wasm = file_map(p->arena, p->diag, path, INT64_MAX);
    javascript_write(p->arena, p->build, p->program, (bytes){wasm.data, wasm.size}, to);
}

static void write_main_c(pipeline *p, const sink *to) {
    example_main(p->arena, p->build, example_search(p), to);
}
static void write_makefile(pipeline *p, const sink *to) { example_makefile(p->arena, p->build, to); }

static outfile *begin_file(pipeline *p, const char *path, void (*write)(pipeline *p, const sink *to)) {
    outfile *o = outfile_open(p->arena, p->diag, path, false);
    sink to = outfile_sink(o);
    write(p, &to);
    return o;
}

// A folder with everything for a first program.
static void write_example(pipeline *p, const char *path) {
    arena *a = p->arena;
    const char *name = p->build->io->name;
    if (mkdir(path, 0777) && errno != EEXIST)
        diag_fatal(p->diag, NULL, "cannot make folder '%s': %s", path, strerror(errno));
    outfile *files[] = {begin_file(p, arena_printf(a, "%s/main.c", path), write_main_c),
                        begin_file(p, arena_printf(a, "%s/Makefile", path), write_makefile),
                        begin_file(p, arena_printf(a, "%s/%s.h", path, name), output_header)};
    link_lib(p, arena_printf(a, "%s/%s.a", path, name));
    for (int i = 0; i < 3; i++) outfile_commit(files[i]);
}

static void add(const sink *to, const char *s) { sink_add(to, s); }
static void write_ir(pipeline *p, const sink *to) { add(to, graph_print(p->arena, p->module)); }
static void write_onnx(pipeline *p, const sink *to) { onnx_write(p->module, &p->options->opsets, to, NULL); }
static text onnx_bytes(pipeline *p) {
    text t = {.arena = p->arena};
    sink to = sink_text(&t);
    write_onnx(p, &to);
    return t;
}
static void write_textproto(pipeline *p, const sink *to) {
    text t = onnx_bytes(p), made = write_text_format(p->arena, t.s, t.n);
    sink_addn(to, made.s, made.n);
}
static void write_onnx_json(pipeline *p, const sink *to) {
    text t = onnx_bytes(p), made = write_json(p->arena, t.s, t.n);
    sink_addn(to, made.s, made.n);
}
static void write_onnxtxt(pipeline *p, const sink *to) {
    text t = onnx_bytes(p), made = write_onnx_text(p->arena, p->diag, t.s, t.n);
    sink_addn(to, made.s, made.n);
}
static void write_kernels(pipeline *p, const sink *to) {
    for (int j = 0; j < p->versions.n; j++) {
        add(to, arena_printf(p->arena, "version %s\n", p->versions.at[j].label));
        add(to, program_print(p->arena, p->versions.at[j].program));
    }
    if (!p->versions.n) add(to, program_print(p->arena, p->program));
}
static void write_dot(pipeline *p, const sink *to) { add(to, report_dot(p)); }
static void write_html(pipeline *p, const sink *to) { add(to, report_html(p)); }
static void write_report_json(pipeline *p, const sink *to) { add(to, report_json(p)); }

typedef struct format_writer {
    // One of the two; `link` writes the file itself.
    void (*write)(pipeline *p, const sink *to);
    void (*link)(pipeline *p, const char *path);
    bytes (*code)(pipeline *p); // machine code in p->code for the other two; NULL: they need none
} format_writer;

static const format_writer writers[FORMAT_COUNT] = {
    [FORMAT_OBJ] = {write_object, NULL, object_code},
    [FORMAT_LIB] = {NULL, link_lib, object_code},
    [FORMAT_SHARED] = {NULL, link_so, object_code},
    [FORMAT_EXE] = {NULL, link_exe, program_code},
    [FORMAT_WASM] = {NULL, link_so, object_code},
    [FORMAT_JS] = {write_js, NULL, object_code},
    [FORMAT_C] = {write_c},
    [FORMAT_HEADER] = {output_header},
    [FORMAT_EXAMPLE] = {NULL, write_example, object_code},
    [FORMAT_ASM] = {write_code, NULL, asm_code},
    [FORMAT_LLVM_IR] = {write_code, NULL, llvm_ir_code},
    [FORMAT_BITCODE] = {write_code, NULL, bitcode},
    [FORMAT_CUDA] = {write_cuda},
    [FORMAT_PTX] = {write_code, NULL, ptx_code},
    [FORMAT_CUBIN] = {write_code, NULL, cubin_code},
    [FORMAT_IR] = {write_ir},
    [FORMAT_KERNELS] = {write_kernels},
    [FORMAT_LOOPS] = {write_loops},
    [FORMAT_ONNX] = {write_onnx},
    [FORMAT_TEXTPROTO] = {write_textproto},
    [FORMAT_ONNX_JSON] = {write_onnx_json},
    [FORMAT_ONNXTXT] = {write_onnxtxt},
    [FORMAT_DOT] = {write_dot},
    [FORMAT_HTML] = {write_html},
    [FORMAT_JSON] = {write_report_json},
};

// ---------------------------------------------------------------- names
static const char *with_extension(arena *a, const char *path, const char *extension) {
    return arena_printf(a, "%.*s%s", (int)(strlen(path) - strlen(extension_of(path))), path, extension);
}

// The output path: as given, or the name of the model in this folder.
static const char *output_path(pipeline *p, const format *f, const source *s) {
    if (is_stdout(p->options->output)) return "/dev/stdout";
    if (p->options->output) return p->options->output;
    return with_extension(p->arena, strcmp(s->path, "-") == 0 ? "model" : base_name(s->path), f->extension);
}

// ---------------------------------------------------------------- dependency file
static void add_make_name(text *t, const char *s) {
    for (; *s; s++) {
        if (*s == '$') text_add(t, "$");
        else if (*s == ' ' || *s == '#' || *s == ':' || *s == '%') text_add(t, "\\");
        text_addn(t, s, 1);
    }
}

static outfile *begin_depfile(pipeline *p, const string_list *outputs) {
    if (!p->options->depfile) return NULL;
    text t = {.arena = p->arena};
    for (int i = 0; i < outputs->n; i++) text_add(&t, i ? " " : ""), add_make_name(&t, outputs->at[i]);
    text_add(&t, ":");
    for (int i = 0; i < p->files.n; i++) text_add(&t, " "), add_make_name(&t, p->files.at[i]);
    text_add(&t, "\n");
    outfile *o = outfile_open(p->arena, p->diag, p->options->depfile, false);
    outfile_write(o, t.s, t.n);
    return o;
}

// ---------------------------------------------------------------- a compilation
static void write_zeros(const sink *to, int64_t n) {
    static const char zeros[64];
    for (; n > 0; n -= 64) sink_addn(to, zeros, n < 64 ? (size_t)n : 64);
}

static void write_weights(pipeline *p, const sink *to) {
    const build *b = p->build;
    int64_t at = sizeof *b->weights_head;
    sink_addn(to, (const char *)b->weights_head, sizeof *b->weights_head);
    for (int i = 0; i < b->weights.n; i++) {
        write_zeros(to, b->weights.at[i].offset - at);
        weights_write(p->arena, b->weights.at[i].data, to);
        at = b->weights.at[i].offset + b->weights.at[i].data->bytes;
    }
    write_zeros(to, b->weights_bytes - at);
}

// The header beside the main output; C text includes it by its name.
static const char *header_path(pipeline *p, const format *f, const char *path) {
    if (p->options->header) return p->options->header;
    if (!f->header || !path || is_stream(path)) return NULL;
    return with_extension(p->arena, path,
                          ends_with(path, ".mjs") ? ".d.mts" : f->header); // as TypeScript looks for it
}

// An error for each output that is an input or an earlier output; NULL outputs are left out.
static void check_places(diag *d, const char *const *outputs, int noutputs, const char *const *inputs,
                         int ninputs) {
    for (int i = 0; i < noutputs; i++) {
        const char *path = outputs[i];
        bool bad = false;
        for (int j = 0; path && j < ninputs && !bad; j++)
            if ((bad = same_file(path, inputs[j])))
                diag_error(d, NULL, "output file '%s' is also an input, '%s'", path, inputs[j]);
        for (int j = 0; path && j < i && !bad; j++)
            if ((bad = outputs[j] && same_file(path, outputs[j])))
                diag_error(d, NULL, "two outputs have the file name '%s'", path);
    }
}

static void check_outputs(pipeline *p, const char *path, const char *header) {
    const options *o = p->options;
    const char *outputs[] = {path, header, p->build ? options_weights(o) : NULL, o->depfile};
    for (int i = 0; i < 4; i++)
        if (outputs[i] && !*outputs[i]) diag_error(p->diag, NULL, "the name of an output is empty");
    check_places(p->diag, outputs, 4, p->files.at, p->files.n);
    diag_check(p->diag);
}

// Before the compilation, which can take minutes.
static void check_folders(pipeline *p, const char *path, const char *header) {
    const char *outputs[] = {path, header, options_weights(p->options), p->options->depfile};
    for (int i = 0; i < 4; i++)
        if (outputs[i]) outfile_check_folder(p->diag, outputs[i]);
}

static void write_main(pipeline *p, const writer *w) {
    const format_writer *by = &writers[w->f->id];
    if (w->memory) {
        text *t = ARENA_NEW(p->arena, text);
        t->arena = p->arena;
        sink to = sink_text(t);
        if (!by->write) diag_fatal(p->diag, NULL, "--emit=%s needs a file to write to", w->f->name);
        by->write(p, &to);
        *w->memory = (bytes){t->s, t->n};
    } else if (by->link) {
        by->link(p, w->path);
    } else {
        outfile_commit(begin_file(p, w->path, by->write));
    }
}

static void write_header(pipeline *p, const sink *to) {
    const writer *w = p->writer;
    if (w->f->id == FORMAT_JS) javascript_write_types(p->arena, p->build, p->program, to);
    else output_header(p, to);
}

static void write_outputs(pipeline *p) {
    const writer *w = p->writer;
    const char *weights = p->build ? options_weights(p->options) : NULL;
    string_list outputs = {0};
    if (w->path) VEC_PUSH(p->arena, &outputs, w->path);
    if (w->header) VEC_PUSH(p->arena, &outputs, w->header);
    if (weights) VEC_PUSH(p->arena, &outputs, weights);
    // The other files are complete before the first one appears under its name.
    outfile *along[] = {weights ? begin_file(p, weights, write_weights) : NULL,
                        w->header ? begin_file(p, w->header, write_header) : NULL,
                        begin_depfile(p, &outputs)};
    for (int i = 0; i < 3; i++)
        if (along[i]) outfile_flush(along[i]);
    write_main(p, w);
    for (int i = 0; i < 3; i++)
        if (along[i]) outfile_commit(along[i]);
}

// Modules are for WebAssembly, of which there is one kind.
static void choose_target(pipeline *p, const format *f) {
    if ((f->id != FORMAT_WASM && f->id != FORMAT_JS) || p->options->triple) return;
    options *own = ARENA_NEW(p->arena, options);
    *own = *p->options;
    own->triple = "wasm32";
    p->options = own;
}

// The names that Windows and macOS give their files promise these.
static void check_extension(pipeline *p, const char *path) {
    static const struct {
        const char *extension, *triple;
        object_format format;
    } systems[] = {{".dll", "x86_64-windows-gnu", OBJECT_COFF},
                   {".exe", "x86_64-windows-gnu", OBJECT_COFF},
                   {".dylib", "arm64-apple-macos", OBJECT_MACHO}};
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        if (p->target->format == systems[i].format || !ends_with(path, systems[i].extension)) continue;
        diag_hint(p->diag, "--target=%s makes one; --emit=KIND takes any name", systems[i].triple);
        diag_fatal(p->diag, NULL, "'%s' would be no %s file: the target is %s", path, systems[i].extension,
                   p->target->triple);
    }
}

static bool nothing_wanted(const options *o) { return (o->stop_after || o->print_after) && !o->output; }

void output_compile(pipeline *p, const source *s, bytes *memory) {
    const options *o = p->options;
    bool program = source_is_program(s) && !o->emit && is_stdout(o->output);
    const format *f = program ? format_of_path(s->path) : format_of_options(o);
    if (!f) {
        if (is_folder(o->output)) {
            diag_hint(p->diag, "name a file in it, such as -o %s%sNAME.o", o->output,
                      ends_with(o->output, "/") ? "" : "/");
            diag_fatal(p->diag, NULL, "output '%s' is a folder", o->output);
        }
        diag_hint(p->diag, "use an extension such as .o, .a, .so or .c, or --emit=KIND");
        diag_fatal(p->diag, NULL, "cannot tell the kind of output from the name '%s'", o->output);
    }
    diag_check(p->diag);
    choose_target(p, f);
    p->text_target = f->text_target;
    p->gpu_want = f->gpu;
    const char *path = memory ? NULL : output_path(p, f, s), *header = header_path(p, f, path);
    writer w = {f, path, header, memory};
    p->header_name = header ? base_name(header) : NULL;
    if (!memory && !nothing_wanted(o)) check_folders(p, path, header);
    pipeline_run(p, s, header ? GOAL_LOOPS : f->goal);
    bool graph = f->goal == GOAL_GRAPH || f->id == FORMAT_DOT;
    bool early = p->stopped && (!graph || p->program || header); // nothing to write yet in
    if (early && o->stop_after && o->output)
        diag_warning(
            p->diag, WARN_UNUSED_ARGUMENT, NULL,
            "argument unused: '--output=%s': nothing is written if the compilation stops after pass '%s'",
            o->output, o->stop_after);
    if (early) return;
    if (path && p->target && !o->emit) check_extension(p, path);
    if (p->build) p->build->imported = f->id == FORMAT_SHARED && p->target->format == OBJECT_COFF;
    p->make_code = writers[f->id].code;
    if (!nothing_wanted(o) || memory) {
        check_outputs(p, path, header);
        p->writer = &w;
        p->write_files = write_outputs;
    } else if (!pass_shows_code(p->arena, o)) {
        return;
    }
    pipeline_output(p);
}
