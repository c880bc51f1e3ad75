// Weights of grouped convolutions: the axis of channels becomes two, of groups and of a group's channels.
#ifndef ONNXC_PASSES_LAYOUT_WEIGHT_GROUPS_H
#define ONNXC_PASSES_LAYOUT_WEIGHT_GROUPS_H
#include "passes/match/contract.h"

// Each group can then have its own panels. known: (buffer id, axis) -> what it is split into.
void split_groups(program *p, map *known, contraction *c);
#endif
