// Def-use and liveness analysis of buffers: who reads and writes each, through views too, and its live range. In:
// a program. Built once for a pass, which reports the kernels that it changes (uses_update).
#ifndef ONNXC_IR_KERNEL_USES_H
#define ONNXC_IR_KERNEL_USES_H
#include "ir/kernel/program.h"

// A step with the buffers that it accesses itself, not in its bodies.
typedef struct site {
    step *s;
    region *region;     // that holds the step
    struct site *owner; // the step whose body that region is, NULL: the program's
    int depth;          // of the region: 0 is the program's
    int time, end; // program order from 1; a loop's end counts as one more, for the condition and the jump
    buffer_list accessed;      // each once, views as views, what is written first; without locals of kernels
    buffer_list reads, writes; // their roots, each once; allocating and freeing count as writes
} site;
typedef VEC(site *) site_list;

typedef struct buffer_uses {
    site_list sites; // each once, in program order; an update leaves those that no longer access it
    bool viewed;     // a site accesses a view of it
    bool by_others;  // other steps than kernels use what it holds
    bool output;     // the caller gets it
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
    VEC(live_range) loops; // inner ones first
} uses;

uses *uses_build(arena *a, const program *p);
void uses_update(uses *u, site *at); // after its kernel has changed, or is NULL: removed
bool site_reads(const site *at, const buffer *root);
bool site_writes(const site *at, const buffer *root);
static inline bool site_touches(const site *at, const buffer *root) {
    return site_reads(at, root) || site_writes(at, root);
}
// Whether so many sites access it, none a view of it; a default of an input counts as one.
bool uses_are_direct(const uses *u, const buffer *root, int n);
// From the first use to the last one, and through all of a loop when a use lies outside of it; {0, 0}: no
// use.
live_range uses_live_range(const uses *u, const buffer *root);
// The last use in the innermost region that has all uses, NULL: none. Uses in bodies count as their owner's.
const site *uses_last_site(const uses *u, const buffer *root);
#endif
