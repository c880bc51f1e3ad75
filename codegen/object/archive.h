// Static libraries in the GNU format or BSD's: deterministic (no times, no owners), with a symbol index.
#ifndef ONNXC_CODEGEN_OBJECT_ARCHIVE_H
#define ONNXC_CODEGEN_OBJECT_ARCHIVE_H
#include "compiler/base/arena.h"
#include "compiler/base/bytes.h"
#include "compiler/base/diag.h"
#include "compiler/base/sink.h"
#include <stdbool.h>

typedef struct archive_member {
    const char *name; // without folder
    bytes content;    // an object, or anything without symbols
} archive_member;
typedef struct archive {
    VEC(archive_member) members;
} archive;

// `what` names the file in messages.
archive archive_read(arena *a, diag *d, bytes file, const char *what);
void archive_write(arena *a, diag *d, const archive *r, const sink *to);
void archive_write_bsd(arena *a, diag *d, const archive *r, const sink *to); // for Apple's linkers
// Adds to `to` those members of `from` that its members need, directly or through others, in from's order.
void archive_add_needed(arena *a, diag *d, archive *to, const archive *from);
#endif
