// The text of report_page.html, which tools/embed_text.awk makes a part of the library.
#ifndef ONNXC_COMPILER_REPORT_REPORT_PAGE_H
#define ONNXC_COMPILER_REPORT_REPORT_PAGE_H
extern const char report_page[];
#endif
