// The table of formats, and looking them up. In: options or a path. Out: a row.
#include "compiler/driver/formats.h"
#include "compiler/base/fs.h"
#include <string.h>

static const format formats[] = {
#define X(...) {__VA_ARGS__},
    FORMATS(X)
#undef X
};

const format *format_of_path(const char *path) {
    static const struct {
        const char *extension;
        format_id id;
    } others[] = {{".onnx.json", FORMAT_ONNX_JSON}, // before .json, a report
                  {".mjs", FORMAT_JS},
                  {".obj", FORMAT_OBJ}, // of Windows and macOS
                  {".lib", FORMAT_LIB},
                  {".dll", FORMAT_SHARED},
                  {".dylib", FORMAT_SHARED},
                  {".exe", FORMAT_EXE},
                  {".pbtxt", FORMAT_TEXTPROTO},
                  {".prototxt", FORMAT_TEXTPROTO},
                  {".txt", FORMAT_ONNXTXT}};
    const char *extension = extension_of(path), *name = base_name(path);
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        size_t size = strlen(others[i].extension);
        if (n > size && strcmp(name + n - size, others[i].extension) == 0) return &formats[others[i].id];
    }
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (*extension && strcmp(formats[i].extension, extension) == 0) return &formats[i];
    return NULL;
}

const format *format_of_options(const options *o) {
    if (!o->emit)
        return o->output && !is_stream(o->output) ? format_of_path(o->output) : &formats[FORMAT_OBJ];
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (strcmp(formats[i].name, o->emit) == 0) return &formats[i];
    return NULL;
}
