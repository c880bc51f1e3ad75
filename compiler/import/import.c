// The import from file to module: limits, the wire walk, fields of the model; graphs and nodes are in graph.c
// and node.c.
#include "compiler/base/outfile.h"
#include "compiler/import/impl.h"
#include "compiler/import/text/formats.h"
#include <unistd.h>

enum { OLDEST_IR = 3, NEWEST_IR = 14, NODES_MOST = 500000 };

importer importer_new(arena *a, diag *d, const import_options *options) {
    importer im = {.arena = a, .diag = d};
    if (options) im.options = *options;
    import_options *o = &im.options;
    if (!o->max_file) o->max_file = INT64_C(1) << 40;
    if (!o->max_external) o->max_external = INT64_C(1) << 42;
    if (!o->max_dense) o->max_dense = INT64_C(1) << 30;
    if (!o->max_nodes) o->max_nodes = NODES_MOST;
    im.folders[2] = o->external_data_dir;
    im.external.arena = im.functions.arena = im.ops.arena = im.missing.arena = im.reserved.arena =
        im.defaults.arena = im.dropped.arena = a;
    for (int i = 0; o->custom && o->custom[i]; i++)
        map_put(&im.ops, arena_printf(a, "%s:%s", o->custom[i]->domain, o->custom[i]->name),
                (void *)o->custom[i]);
    im.absent = ARENA_NEW(a, value);
    return im;
}

static void check_ir_version(importer *im) {
    const Onnx__ModelProto *m = im->model;
    long long version = (long long)m->ir_version;
    if (!m->has_ir_version || version <= 0)
        diag_fatal(im->diag, NULL, "not an ONNX model: it has no IR version");
    if (version < OLDEST_IR || version > NEWEST_IR)
        diag_fatal_missing(im->diag, NULL, "IR version %lld is not supported; this build knows %d to %d",
                           version, OLDEST_IR, NEWEST_IR);
    if (!m->graph) diag_fatal(im->diag, NULL, "the model has no graph");
}

static void note_opset(importer *im, const char *domain, int64_t version) {
    map *known = &im->module->opsets;
    if ((intptr_t)map_get(known, domain) < version) map_put(known, domain, (void *)(intptr_t)version);
}

enum { OPSETS_MOST = 1000 }; // nodes look their domain up among them

static void check_opsets(importer *im, const char *owner, Onnx__OperatorSetIdProto **opsets, size_t n) {
    if (n > OPSETS_MOST)
        diag_fatal_missing(im->diag, NULL, "%s imports %zu operator sets; at most %d are supported", owner, n,
                           OPSETS_MOST);
    for (size_t i = 0; i < n; i++) {
        const char *domain = domain_of(opsets[i]->domain);
        if (opsets[i]->version <= 0 || opsets[i]->version > INT32_MAX)
            diag_fatal(im->diag, NULL, "%s imports version %lld of domain '%s'", owner,
                       (long long)opsets[i]->version, domain);
        note_opset(im, domain, opsets[i]->version);
        for (size_t k = 0; k < i; k++)
            if (strcmp(domain_of(opsets[k]->domain), domain) == 0 && opsets[k]->version != opsets[i]->version)
                diag_fatal(im->diag, NULL, "%s imports versions %lld and %lld of domain '%s'", owner,
                           (long long)opsets[k]->version, (long long)opsets[i]->version, domain);
    }
}

static void check_all_opsets(importer *im) {
    const Onnx__ModelProto *m = im->model;
    if (!m->n_opset_import) diag_fatal(im->diag, NULL, "the model has no opset_import");
    check_opsets(im, "the model", m->opset_import, m->n_opset_import);
    for (size_t i = 0; i < m->n_functions; i++) {
        const Onnx__FunctionProto *f = m->functions[i];
        const char *owner = arena_printf(im->arena, "function '%s'", text_or_empty(f->name));
        check_opsets(im, owner, f->opset_import, f->n_opset_import);
    }
}

static void describe(importer *im) {
    const Onnx__ModelProto *from = im->model;
    module *m = im->module;
    const char *name = text_or_empty(from->producer_name), *version = text_or_empty(from->producer_version);
    m->ir_version = (int)from->ir_version;
    m->producer = *version ? arena_printf(im->arena, "%s %s", name, version) : name;
    m->producer_name = name;
    m->producer_version = version;
    m->domain = text_or_empty(from->domain);
    m->model_version = from->model_version;
    m->doc = text_or_empty(from->doc_string);
    m->graph_doc = text_or_empty(from->graph->doc_string);
    for (size_t i = 0; i < from->n_metadata_props; i++) {
        VEC_PUSH(im->arena, &m->metadata, text_or_empty(from->metadata_props[i]->key));
        VEC_PUSH(im->arena, &m->metadata, text_or_empty(from->metadata_props[i]->value));
    }
}

// Converts text formats to binary protobuf.
static void read_format(importer *im, const char *name) {
    const char *s = (const char *)im->data;
    size_t n = im->size;
    wire_kind *model = &onnx__model_proto__descriptor;
    model_format format = format_of(name, im->data, n);
    bool marked = n >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0;
    if (format != FORMAT_BINARY && marked) s += 3, n -= 3;
    wire_out made = {0};
    switch (format) {
    case FORMAT_BINARY: file_check_binary(im->diag, im->data, n); return;
    case FORMAT_TEXT_PROTO: made = read_text_format(im->arena, im->diag, model, s, n); break;
    case FORMAT_JSON: made = read_json(im->arena, im->diag, model, s, n); break;
    case FORMAT_ONNX_TEXT: made = read_onnx_text(im->arena, im->diag, s, n); break;
    }
    im->data = (const uint8_t *)text_str(&made);
    im->size = made.n;
}

static module *import_model(importer *im, const char *name) {
    im->diag->file = im->diag->file ? im->diag->file : name;
    file_check_kind(im->diag, im->data, im->size);
    read_format(im, name);
    im->model = (const Onnx__ModelProto *)wire_unpack(im->arena, im->diag, &onnx__model_proto__descriptor,
                                                      im->data, im->size);
    check_ir_version(im);
    im->module = module_new(im->arena, im->diag, name);
    check_all_opsets(im);
    describe(im);
    import_main(im);
    report_missing(im);
    diag_check(im->diag);
    return im->module;
}

module *import_onnx_memory(arena *a, diag *d, const char *name, const char *folder, const void *data,
                           size_t size, const import_options *options) {
    importer im = importer_new(a, d, options);
    im.data = data;
    im.size = size;
    im.folders[0] = folder;
    return import_model(&im, name);
}

module *import_onnx_file(arena *a, diag *d, const char *path, const import_options *options) {
    importer im = importer_new(a, d, options);
    mapped m = file_map(a, d, path, im.options.max_file);
    im.data = m.data;
    im.size = m.size;
    im.folders[0] = file_folder(a, path, false);
    im.folders[1] = file_folder(a, path, true);
    if (im.options.files) VEC_PUSH(a, im.options.files, arena_strdup(a, path));
    outfile_protect(d, path);
    return import_model(&im, arena_strdup(a, path));
}
