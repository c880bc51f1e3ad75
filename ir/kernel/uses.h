// Def-use and liveness analysis of buffers: readers and writers of each, through views too, and its live
// range. In: a program. Built once per pass, which reports the kernels that it changes (uses_update).
#ifndef ONNXC_IR_KERNEL_USES_H
#define ONNXC_IR_KERNEL_USES_H
#include "ir/kernel/program.h"

// A step with the buffers that it accesses itself, outside its bodies.
typedef struct site {
    step *s;
    region *region;       // of the step
    struct site *owner;   // the step whose body contains it, NULL: none
    int depth;            // of the region: 0 is the program's
    int time, end;        // program order from 1; the end of a loop counts as one more, for its condition
    buffer_list accessed; // once each, views not resolved, written ones first; without locals of kernels
    buffer_list reads, writes; // their roots, once each; allocation and release count as writes
} site;
typedef VEC(site *) site_list;

typedef struct buffer_uses {
    site_list sites; // once each, in program order; an update keeps former users
    bool viewed;     // a site accesses a view of it
    bool by_others;  // steps other than kernels use its contents
    bool output;     // it is an output
    bool fallback;   // it is the default of an input
} buffer_uses;

typedef struct live_range { // times of sites, both included
    int def, last_use;
} live_range;

typedef struct uses {
    arena *arena;
    site *sites; // in program order
    int n;
    site **of_kernel;      // by kernel id: the first site that runs it
    buffer_uses *of;       // by id of the root
    int nof;               // length of `of`
    VEC(live_range) loops; // inner ones first
} uses;

uses *uses_build(arena *a, const program *p);
void uses_update(uses *u, site *at); // after its kernel has changed, or is NULL: removed
bool site_reads(const site *at, const buffer *root);
bool site_writes(const site *at, const buffer *root);
static inline bool site_touches(const site *at, const buffer *root) {
    return site_reads(at, root) || site_writes(at, root);
}
bool site_repeats(const site *at);                // a loop contains it
bool sites_exclude(const site *a, const site *b); // they are in branches of which a run takes only one
// Whether exactly n sites access it, and none through a view; being the default of an input counts as a use.
bool uses_are_direct(const uses *u, const buffer *root, int n);
// From the first to the last use, extended to the whole of a loop if some use is outside it; {0, 0}: no use.
live_range uses_live_range(const uses *u, const buffer *root);
// The last use in the innermost region that contains all uses; NULL: none. Uses in bodies count as uses of
// their owner.
const site *uses_last_site(const uses *u, const buffer *root);
#endif
