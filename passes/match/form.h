// Predicates on parts of kernels that passes and schedules share.
#ifndef ONNXC_PASSES_MATCH_FORM_H
#define ONNXC_PASSES_MATCH_FORM_H
#include "ir/kernel/kernel.h"

bool expr_is_int(const expr *x, int64_t v);          // the integer constant v
dim *expr_known_dim(const kernel *k, const expr *x); // of a constant or X_DIM, else NULL
bool reads_local(const expr *x);                     // a read of a local
typedef VEC(write *) write_list;
write_list kernel_write_list(const kernel *k); // of all stages, in order; lives as long as k
bool write_is_plain(const write *w);           // unguarded, sets, after all reductions
bool stage_writes_at_end(const stage *s);      // all of its writes are WRITE_END
// ... or keep values that do not depend on the states, before each step: a reduction may be done in any order.
bool stage_keeps_terms(const stage *s);
// Whether a reduce axis moves a window of what is read, as those of pools and convolutions.
bool read_slides(const kernel *k, const expr *read);
bool stage_scans(const kernel *k, const stage *s);
bool stage_reduces(const kernel *k, const stage *s, const expr *x); // x varies along its reduce or scan axes
// The only dim of an access that the axis indexes, -1: none or several; plain: the index is the axis itself.
int dim_of_axis(const buffer *b, expr *const *index, int axis, bool plain);
// Extents of axes, sizes of buffers and dims in expressions, perhaps repeated.
typedef VEC(dim *) dim_list;
dim_list kernel_dims(arena *a, const kernel *k);
dim *axes_extent(const kernel *k, const int *axes, int n); // product of the extents
bool is_chosen_by_data(const expr *read);                  // whether an index of it reads
// Whether the kernel reads of b only rows that data choose, as those of a table of embeddings. A table of so many bytes
// that is also the weights of a product is held once.
enum { LEAST_TABLE_BYTES = 1 << 20 };
bool kernel_only_gathers(const kernel *k, const buffer *b);
#endif
