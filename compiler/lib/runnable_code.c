// Compiled models. In: a module to load into this process, or a shared library. Out: the same way to run both, through
// the generic descriptor.
#include "codegen/host.h"
#include "codegen/load.h"
#include "compiler/import/file.h"
#include "compiler/lib/runnable_impl.h"
#include "runtime-lite/onnxc.h"
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>

enum { ATTEMPTS = 4 }; // outputs whose size the data decide tell it bit by bit

typedef struct code {
    onnxc_model model;
    const onnxc_descriptor *d;
} code;

// ---------------------------------------------------------------- the descriptor
static port port_of(arena *a, const onnxc_descriptor *d, const onnxc_tensor_info *t) {
    port p = {.name = onnxc_text(d, t->name), .kind = TYPE_TENSOR, .dtype = dtype_from_onnx(t->dtype), .rank = (int)t->rank};
    const onnxc_dim_info *dims = onnxc_dims(d, t);
    for (int j = 0; j < p.rank; j++) {
        p.dims[j] = dims[j].value;
        p.sizes[j] = dims[j].value >= 0 ? arena_printf(a, "%lld", (long long)dims[j].value) : onnxc_text(d, dims[j].text);
    }
    return p;
}

static runnable *from_model(arena *a, onnxc_model m, bool (*run)(runnable *, arena *, const tensor *, tensor *, const char **)) {
    const onnxc_descriptor *d = m.descriptor;
    code *c = ARENA_NEW(a, code);
    *c = (code){m, d};
    runnable *r = ARENA_NEW(a, runnable);
    *r = (runnable){.name = onnxc_text(d, d->name), .nin = (int)d->ninputs, .nout = (int)d->noutputs, .impl = c, .run = run};
    r->in = ARENA_ARRAY(a, port, r->nin + 1);
    r->out = ARENA_ARRAY(a, port, r->nout + 1);
    for (int j = 0; j < r->nin; j++) r->in[j] = port_of(a, d, &onnxc_inputs(d)[j]);
    for (int j = 0; j < r->nout; j++) r->out[j] = port_of(a, d, &onnxc_outputs(d)[j]);
    return r;
}

// ---------------------------------------------------------------- running
static bool inputs_fit(arena *a, const runnable *r, const tensor *in, const char **message) {
    for (int j = 0; j < r->nin; j++) {
        if (in[j].dtype == r->in[j].dtype && in[j].rank == r->in[j].rank) continue;
        *message = arena_printf(a, "input '%s' is %s, but a tensor of %s and rank %d is given", r->in[j].name, port_text(a, &r->in[j]), dtype_name(in[j].dtype), in[j].rank);
        return false;
    }
    return true;
}

// Output memory for the dims that are known by now.
static void make_outputs(arena *a, const runnable *r, const int64_t *dims, void **data, int64_t *capacity, tensor *out) {
    const code *c = r->impl;
    for (int j = 0; j < r->nout; j++) {
        const onnxc_tensor_info *t = &onnxc_outputs(c->d)[j];
        for (int i = 0; i < r->out[j].rank; i++) out[j].dims[i] = r->out[j].dims[i] >= 0 ? r->out[j].dims[i] : dims[t->first_dim + (uint32_t)i];
        out[j] = tensor_new(a, r->out[j].dtype, r->out[j].rank, out[j].dims);
        data[r->nin + j] = out[j].data;
        capacity[j] = out[j].count;
    }
}

static bool run_code(runnable *r, arena *a, const tensor *in, tensor *out, const char **message) {
    const code *c = r->impl;
    if (!inputs_fit(a, r, in, message)) return false;
    void **data = ARENA_ARRAY(a, void *, r->nin + r->nout + 1);
    int64_t *dims = ARENA_ARRAY(a, int64_t, c->d->ndims + 1), *capacity = ARENA_ARRAY(a, int64_t, r->nout + 1);
    for (int j = 0; j < r->nin; j++) {
        data[j] = in[j].data;
        memcpy(dims + onnxc_inputs(c->d)[j].first_dim, in[j].dims, (size_t)in[j].rank * sizeof *dims);
    }
    int64_t bytes = c->model.workspace(dims), size = bytes > 0 ? bytes : 0;
    void *workspace = tensor_new(a, DT_U8, 1, &size).data;
    int status = ONNXC_TOO_SMALL;
    for (int i = 0; i < ATTEMPTS && status == ONNXC_TOO_SMALL; i++) {
        make_outputs(a, r, dims, data, capacity, out);
        *message = NULL;
        status = c->model.run(data, dims, capacity, workspace, (size_t)size, message);
    }
    for (int j = 0; j < r->nout; j++) {
        const int64_t *d = dims + onnxc_outputs(c->d)[j].first_dim;
        out[j].count = 1;
        for (int i = 0; i < out[j].rank; i++) out[j].count *= out[j].dims[i] = d[i];
    }
    if (status == ONNXC_OK) return true;
    if (!*message) *message = arena_printf(a, "the run failed with code %d", status);
    return false;
}

// ---------------------------------------------------------------- code in this process
runnable *loaded_model(pipeline *p) {
    const char *name = p->build->io->name;
    loaded *l = load_module(p->arena, p->diag, p->loops, NULL, 0);
    onnxc_model m = {.descriptor = loaded_symbol(l, arena_printf(p->arena, "%s_descriptor", name))};
    *(void **)&m.run = loaded_symbol(l, arena_printf(p->arena, "%s_run_generic", name));
    *(void **)&m.workspace = loaded_symbol(l, arena_printf(p->arena, "%s_workspace_generic", name));
    if (!m.descriptor || !m.run || !m.workspace) diag_defect(p->diag, NULL, "the loaded model lacks its generic interface");
    return from_model(p->arena, m, run_code);
}

// ---------------------------------------------------------------- shared libraries
bool runnable_is_library(const char *path) {
    char magic[SELFMAG] = {0};
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    bool elf = fread(magic, 1, SELFMAG, f) == SELFMAG && memcmp(magic, ELFMAG, SELFMAG) == 0;
    fclose(f);
    return elf;
}

static void close_library(void *library) { dlclose(library); }

static bool holds(const mapped *m, uint64_t offset, uint64_t n) { return offset <= m->size && n <= m->size - offset; }

static const char *descriptor_in(arena *a, const mapped *m, const Elf64_Shdr *symbols, const Elf64_Shdr *names) {
    if (!holds(m, symbols->sh_offset, symbols->sh_size) || !holds(m, names->sh_offset, names->sh_size)) return NULL;
    for (uint64_t i = 0; i < symbols->sh_size / sizeof(Elf64_Sym); i++) {
        Elf64_Sym s;
        memcpy(&s, m->data + symbols->sh_offset + i * sizeof s, sizeof s);
        if (s.st_shndx == SHN_UNDEF || s.st_name >= names->sh_size) continue;
        const char *name = arena_strndup(a, (const char *)m->data + names->sh_offset + s.st_name, strnlen((const char *)m->data + names->sh_offset + s.st_name, names->sh_size - s.st_name));
        const char *end = strstr(name, "_descriptor");
        if (end && end != name && strcmp(end, "_descriptor") == 0) return arena_strndup(a, name, (size_t)(end - name));
    }
    return NULL;
}

// What the model in a library is called is not known beforehand: the symbol of its descriptor tells.
static const char *model_name(arena *a, diag *d, const char *path) {
    mapped m = file_map(a, d, path, INT64_MAX);
    Elf64_Ehdr h;
    if (m.size < sizeof h || m.data[EI_CLASS] != ELFCLASS64) return NULL;
    memcpy(&h, m.data, sizeof h);
    if (h.e_shentsize != sizeof(Elf64_Shdr) || !holds(&m, h.e_shoff, (uint64_t)h.e_shnum * h.e_shentsize)) return NULL;
    Elf64_Shdr *sections = ARENA_ARRAY(a, Elf64_Shdr, h.e_shnum + 1);
    memcpy(sections, m.data + h.e_shoff, (size_t)h.e_shnum * sizeof *sections);
    for (int i = 0; i < h.e_shnum; i++) {
        if (sections[i].sh_type != SHT_DYNSYM || sections[i].sh_link >= h.e_shnum) continue;
        const char *name = descriptor_in(a, &m, &sections[i], &sections[sections[i].sh_link]);
        if (name) return name;
    }
    return NULL;
}

runnable *runnable_open(arena *a, diag *d, const char *path) {
    void *library = dlopen(strchr(path, '/') ? path : arena_printf(a, "./%s", path), RTLD_NOW | RTLD_LOCAL);
    if (!library) diag_fatal(d, NULL, "cannot open '%s': %s", path, dlerror());
    arena_on_destroy(a, close_library, library);
    const char *name = model_name(a, d, path);
    onnxc_model m = {0};
    if (name) {
        m.descriptor = dlsym(library, arena_printf(a, "%s_descriptor", name));
        *(void **)&m.run = dlsym(library, arena_printf(a, "%s_run_generic", name));
        *(void **)&m.workspace = dlsym(library, arena_printf(a, "%s_workspace_generic", name));
    }
    if (!m.descriptor || !m.run || !m.workspace) diag_fatal(d, NULL, "'%s' holds no model made by onnxc", path);
    const onnxc_descriptor *info = m.descriptor;
    if (memcmp(info->magic, "onnxc-m", 8) != 0 || info->interface_version != ONNXC_INTERFACE)
        diag_fatal(d, NULL, "'%s' has interface version %u, this onnxc wants %d", path, info->interface_version, ONNXC_INTERFACE);
    return from_model(a, m, run_code);
}
