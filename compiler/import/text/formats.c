// Recognises formats of models, by their first bytes, then by the extension.
#include "compiler/import/text/formats.h"
#include "compiler/base/chars.h"
#include <string.h>
#include <strings.h>

typedef struct span {
    const char *s;
    size_t n;
} span;

static span skip_space(span t) {
    while (t.n && (char_is_space(*t.s) || *t.s == '#')) {
        bool comment = *t.s == '#';
        while (comment && t.n > 1 && *t.s != '\n') t.s++, t.n--;
        t.s++, t.n--;
    }
    return t;
}

static span skip_word(span t) {
    while (t.n && char_in_name(*t.s)) t.s++, t.n--;
    return t;
}

// Only binary files have control characters.
static bool is_text(span t) {
    enum { LOOK = 512 };
    for (size_t j = 0; j < t.n && j < LOOK; j++)
        if ((unsigned char)t.s[j] < ' ' && !char_is_space(t.s[j])) return false;
    return t.n > 0;
}

// "field:" or "field {" of a model.
static bool is_text_field(span t) {
    static const char *const fields[] = {
        "ir_version", "producer_name", "producer_version", "domain",         "model_version",
        "doc_string", "graph",         "opset_import",     "metadata_props", "functions"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        size_t k = strlen(fields[i]);
        if (t.n < k || memcmp(t.s, fields[i], k) != 0) continue;
        span rest = skip_space((span){t.s + k, t.n - k});
        if (rest.n && (*rest.s == ':' || *rest.s == '{')) return true;
    }
    return false;
}

// "<key:", or without a header the graph: "name (".
static bool is_onnx_text(span t) {
    bool header = t.n && *t.s == '<';
    span rest = skip_space(header ? (span){t.s + 1, t.n - 1} : t);
    if (!rest.n || !char_starts_name(*rest.s)) return false;
    rest = skip_space(skip_word(rest));
    return rest.n && *rest.s == (header ? ':' : '(');
}

static bool is_json(span t) {
    span rest = t.n && *t.s == '{' ? skip_space((span){t.s + 1, t.n - 1}) : (span){NULL, 0};
    return rest.n && (*rest.s == '"' || *rest.s == '}');
}

static model_format format_of_beginning(span t) {
    if (is_text_field(t)) return FORMAT_TEXT_PROTO;
    if (is_onnx_text(t)) return FORMAT_ONNX_TEXT;
    return is_json(t) ? FORMAT_JSON : FORMAT_BINARY;
}

static model_format format_of_name(const char *name) {
    static const struct {
        const char *ending;
        model_format format;
    } known[] = {{".onnxtxt", FORMAT_ONNX_TEXT},    {".txt", FORMAT_ONNX_TEXT},
                 {".textproto", FORMAT_TEXT_PROTO}, {".pbtxt", FORMAT_TEXT_PROTO},
                 {".prototxt", FORMAT_TEXT_PROTO},  {".json", FORMAT_JSON}};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof known / sizeof *known; i++)
        if (strcasecmp(dot, known[i].ending) == 0) return known[i].format;
    return FORMAT_BINARY;
}

model_format format_of(const char *name, const uint8_t *data, size_t n) {
    span all = {(const char *)data, n};
    if (n >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) all = (span){all.s + 3, n - 3};
    model_format begins = format_of_beginning(skip_space(all)), named = format_of_name(name);
    if (begins != FORMAT_BINARY && begins == named) return named; // names within may have control characters
    if (!is_text(all)) return FORMAT_BINARY;
    return begins != FORMAT_BINARY ? begins : named;
}
