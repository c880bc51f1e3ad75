// Prints diagnostics on standard error.
#include "compiler/base/json.h"
#include "compiler/cli/command.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int isatty(int fd); // of unistd.h

bool message_terminal(void) {
    const char *term = getenv("TERM");
    return isatty(2) && !(term && strcmp(term, "dumb") == 0);
}

static bool form_is(const session *s, const char *form) {
    return s->options.diagnostics && strcmp(s->options.diagnostics, form) == 0;
}

static bool use_color(const session *s) {
    const char *c = s->options.color, *no = getenv("NO_COLOR");
    if (c && strcmp(c, "auto") != 0) return strcmp(c, "always") == 0;
    return message_terminal() && !(no && *no);
}

static void show_text(const session *s, const diag_message *m) {
    const char *word = severity_name(m->severity), *at = NULL;
    if (use_color(s)) at = strstr(m->full, arena_printf(s->arena, "%s: %.20s", word, m->text));
    if (!at) {
        fprintf(stderr, "%s\n", m->full);
        return;
    }
    const char *color = m->severity == SEV_ERROR ? "31" : m->severity == SEV_WARNING ? "35" : "36";
    fprintf(stderr, "%.*s\x1b[1;%sm%s:\x1b[0m%s\n", (int)(at - m->full), m->full, color, word,
            at + strlen(word) + 1);
}

static const char *file_of(const session *s, const diag_message *m) {
    return m->loc && m->loc->file ? m->loc->file : s->diag.file;
}

static void show_json(const session *s, const diag_message *m) {
    json j = json_new(s->arena);
    json_open(&j, NULL, '{');
    json_text(&j, "severity", severity_name(m->severity));
    json_int(&j, "code", m->class);
    json_text(&j, "file", file_of(s, m));
    if (m->loc && m->loc->node) json_text(&j, "node", m->loc->node);
    if (m->loc && m->loc->op) json_text(&j, "op", m->loc->op), json_int(&j, "version", m->loc->version);
    json_text(&j, "message", m->text);
    if (m->hint) json_text(&j, "hint", m->hint);
    if (m->table) json_text(&j, "table", m->table);
    json_close(&j, '}');
    fprintf(stderr, "%s\n", json_done(&j));
}

// A result of SARIF 2.1.0, kept for the end.
static const char *sarif_result(const session *s, const diag_message *m) {
    json j = json_new(s->arena);
    const char *file = file_of(s, m);
    json_open(&j, NULL, '{');
    json_text(&j, "level", m->severity == SEV_REMARK ? "note" : severity_name(m->severity));
    json_open(&j, "message", '{');
    const char *text = m->table ? arena_printf(s->arena, "%s\n%s", m->text, m->table) : m->text;
    json_text(&j, "text", m->hint ? arena_printf(s->arena, "%s\nhint: %s", text, m->hint) : text);
    json_close(&j, '}');
    if (file || (m->loc && m->loc->node)) {
        json_open(&j, "locations", '['), json_open(&j, NULL, '{');
        if (file) {
            json_open(&j, "physicalLocation", '{'), json_open(&j, "artifactLocation", '{');
            json_text(&j, "uri", file);
            json_close(&j, '}'), json_close(&j, '}');
        }
        if (m->loc && m->loc->node) {
            json_open(&j, "logicalLocations", '['), json_open(&j, NULL, '{');
            json_text(&j, "name", m->loc->node);
            if (m->loc->op) json_text(&j, "kind", m->loc->op);
            json_close(&j, '}'), json_close(&j, ']');
        }
        json_close(&j, '}'), json_close(&j, ']');
    }
    json_close(&j, '}');
    return json_done(&j);
}

void session_message(void *user, const diag_message *m) {
    session *s = user;
    session_clear_progress(s);
    if (form_is(s, "json")) show_json(s, m);
    else if (form_is(s, "sarif")) VEC_PUSH(s->arena, &s->sarif, sarif_result(s, m));
    else show_text(s, m);
}

void messages_end(session *s) {
    if (!form_is(s, "sarif")) return;
    json j = json_new(s->arena);
    json_open(&j, NULL, '{');
    json_text(&j, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    json_text(&j, "version", "2.1.0");
    json_open(&j, "runs", '['), json_open(&j, NULL, '{');
    json_open(&j, "tool", '{'), json_open(&j, "driver", '{');
    json_text(&j, "name", "onnxc"), json_text(&j, "version", ONNXC_VERSION);
    json_close(&j, '}'), json_close(&j, '}');
    json_open(&j, "results", '[');
    for (int i = 0; i < s->sarif.n; i++) json_raw(&j, NULL, s->sarif.at[i]);
    json_close(&j, ']'), json_close(&j, '}'), json_close(&j, ']'), json_close(&j, '}');
    fprintf(stderr, "%s\n", json_done(&j));
}
