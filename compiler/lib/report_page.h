// The text of report_page.html, which tools/embed_text.awk makes a part of the library.
#ifndef ONNXC_REPORT_PAGE_H
#define ONNXC_REPORT_PAGE_H
extern const char report_page[];
#endif
