// Index arithmetic through reshapes: the index of the same element in another shape of the same memory, with as few divisions as the
// shapes allow. In: an index into a buffer or a view of it. Out: an index into another view.
#ifndef ONNXC_PASSES_MATCH_VIEW_H
#define ONNXC_PASSES_MATCH_VIEW_H
#include "ir/kernel/kernel.h"

// Whether its elements are those of its root in the same order, from the first one on.
bool is_plain_view(const buffer *b);
// The index into `to` of the element that index[] denotes in `from`; both are views of one root.
bool view_index(kernel *k, const buffer *from, const buffer *to, expr *const *index, expr **out);
// e with quotients and remainders of the same division as one value.
expr *join_divisions(kernel *k, expr *e);
int divisions_in(const expr *e); // outside of the indices of reads
int count_divisions(const kernel *k);
#endif
