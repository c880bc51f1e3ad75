// Layout assignment for the whole program, after fusion and before scheduling: which buffers are
// channels-last and have a halo, and which operands are packed in panels; explicit copies at boundaries.
#ifndef ONNXC_PASSES_LAYOUT_LAYOUT_H
#define ONNXC_PASSES_LAYOUT_LAYOUT_H
#include "ir/kernel/program.h"
#include "ir/target.h"

void shape_images(program *p, const target *t);    // image_shapes.c
void assign_channels(program *p, const target *t); // channels-last, with copies at the boundaries
void make_halos(program *p, const target *t);      // after concat elision (concat_elision.h)
void spread_rows(program *p, const target *t);     // spread_rows.c
void pack_panels(program *p, const target *t,
                 bool unpacks);         // constants of less than 8 bits may become temporaries
void read_tables_in_panels(program *p); // of pack_panels: tables that are in panels for a product anyway
void assign_gpu_layouts(program *p, const target *t); // layout_gpu.c

#endif
