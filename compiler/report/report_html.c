// The report as a self-contained HTML page: data, and the style, the elements and the script of
// compiler/report/page, which shows them. In: a
// pipeline. Out: text.
#include "compiler/report/report.h"
#include "compiler/report/report_impl.h"

static void add_html(text *t, const char *s) {
    for (; s && *s; s++) {
        if (*s == '&') text_add(t, "&amp;");
        else if (*s == '<') text_add(t, "&lt;");
        else if (*s == '>') text_add(t, "&gt;");
        else if (*s == '"') text_add(t, "&quot;");
        else if ((unsigned char)*s >= ' ') text_addn(t, s, 1);
        else text_add(t, " ");
    }
}

// JSON inside a script element: nothing may look like a tag.
static void add_data(text *t, const char *json) {
    for (const char *s = json; *s; s++) {
        if (*s == '<' || *s == '>' || *s == '&') text_printf(t, "\\u%04x", (unsigned)*s);
        else text_addn(t, s, 1);
    }
}

const char *report_html(pipeline *p) {
    text t = {.arena = p->arena};
    text_add(&t, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
                 "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                 "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src blob:\"><title>");
    add_html(&t, p->module->name);
    text_add(&t, "</title><style>\n"), text_add(&t, report_style);
    text_add(&t, "</style></head><body>\n<script type=\"application/json\" id=\"data\">");
    add_data(&t, report_page_data(p));
    text_add(&t, "</script>\n"), text_add(&t, report_body);
    text_add(&t, "<script>\n\"use strict\";\n"), text_add(&t, report_script);
    text_add(&t, "</script>\n</body></html>\n");
    return text_str(&t);
}
