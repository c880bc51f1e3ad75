// NonMaxSuppression. Written: triples (batch, class, box) of the selected boxes, their number, scratch of 2 n
// pairs. Read: boxes [batches, n, 4], scores [batches, classes, n], IoU threshold, score threshold (NULL:
// none). Numbers: batches, classes, n, maximum number of boxes of a class, whether boxes are centre and size.
// Boxes of a class are visited by descending score, then ascending index; a box that overlaps a selected one
// by more than the threshold is suppressed.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_key.h"

typedef struct nms_box {
    float y0, x0, y1, x1;
} nms_box;

static nms_box nms_corners(const float *p, int centred) {
    nms_box b;
    if (centred) {
        float hw = p[2] / 2, hh = p[3] / 2;
        b.x0 = p[0] - hw, b.x1 = p[0] + hw, b.y0 = p[1] - hh, b.y1 = p[1] + hh;
    } else {
        b.y0 = p[0] < p[2] ? p[0] : p[2], b.y1 = p[0] < p[2] ? p[2] : p[0];
        b.x0 = p[1] < p[3] ? p[1] : p[3], b.x1 = p[1] < p[3] ? p[3] : p[1];
    }
    return b;
}

static int nms_overlaps(nms_box a, nms_box b, float threshold) {
    float y0 = a.y0 > b.y0 ? a.y0 : b.y0, x0 = a.x0 > b.x0 ? a.x0 : b.x0;
    float y1 = a.y1 < b.y1 ? a.y1 : b.y1, x1 = a.x1 < b.x1 ? a.x1 : b.x1;
    float both, one = (a.y1 - a.y0) * (a.x1 - a.x0), other = (b.y1 - b.y0) * (b.x1 - b.x0);
    if (y1 <= y0 || x1 <= x0 || one <= 0 || other <= 0) return 0;
    both = (y1 - y0) * (x1 - x0);
    return both / (one + other - both) > threshold;
}

// The first candidate of a heap is its root: the lowest key, or among equal keys the lowest index.
static int64_t nms_pop(lib_pair *heap, int64_t n) {
    int64_t first = heap[0].index;
    heap[0] = heap[n - 1];
    lib_sink(heap, n - 1, 0, 0);
    return first;
}

// Usually few of many candidates are visited: a heap gives them one by one.
enum { NMS_MANY = 4 };
static int nms_is_heap(int64_t count, int64_t most) { return most < count / NMS_MANY; }

// Candidates by descending score, or as a heap.
static int64_t nms_candidates(const float *scores, int64_t n, const float *threshold, int64_t most,
                              lib_pair *pairs) {
    int64_t i, count = 0;
    for (i = 0; i < n; i++) {
        if (threshold && !(scores[i] > *threshold)) continue;
        pairs[count].key = ~lib_key(DT_F32, scores, i), pairs[count].index = i;
        count++;
    }
    if (!nms_is_heap(count, most)) lib_sort(pairs, pairs + n, count);
    else
        for (i = count / 2 - 1; i >= 0; i--) lib_sink(pairs, count, i, 0);
    return count;
}

// ---------------------------------------------------------------- selected boxes
// Sorted into strips by their left edges, each with the bounds of its boxes, since most strips are far from a
// candidate. Boxes without an area do not overlap any other and are not stored.
enum { NMS_STRIPS = 64, NMS_BLOCK = 8 };
typedef struct nms_strip {
    nms_box bounds;
    int64_t first, count; // in the arrays of corners
} nms_strip;
typedef struct nms_strips {
    float left, scale, *y0, *x0, *y1, *x1;
    int used; // strips with boxes
    unsigned char order[NMS_STRIPS];
    nms_strip all[NMS_STRIPS];
} nms_strips;

static nms_strip *nms_strip_of(nms_strips *s, nms_box b) {
    float at = (b.x0 - s->left) * s->scale;
    return &s->all[at >= NMS_STRIPS - 1 ? NMS_STRIPS - 1 : at > 0 ? (int)at : 0];
}

// Reserves memory for all candidates in their strips. room: 4 n floats.
static void nms_prepare(nms_strips *s, const float *boxes, int centred, const lib_pair *pairs, int64_t count,
                        float *room) {
    int64_t i, first = 0;
    float right = 0;
    s->y0 = room, s->x0 = room + count, s->y1 = room + 2 * count, s->x1 = room + 3 * count;
    s->left = 0, s->used = 0;
    for (i = 0; i < count; i++) {
        nms_box b = nms_corners(boxes + 4 * pairs[i].index, centred);
        if (i == 0 || b.x0 < s->left) s->left = b.x0;
        if (i == 0 || b.x0 > right) right = b.x0;
    }
    s->scale = right > s->left ? (float)NMS_STRIPS / (right - s->left) : 0;
    for (i = 0; i < NMS_STRIPS; i++) s->all[i].count = 0;
    for (i = 0; i < count; i++) nms_strip_of(s, nms_corners(boxes + 4 * pairs[i].index, centred))->count++;
    for (i = 0; i < NMS_STRIPS; i++) {
        s->all[i].first = first;
        first += s->all[i].count;
        s->all[i].count = 0;
    }
}

static void nms_keep(nms_strips *s, nms_box b) {
    nms_strip *t = nms_strip_of(s, b);
    int64_t at = t->first + t->count;
    if (!t->count++) t->bounds = b, s->order[s->used++] = (unsigned char)(t - s->all);
    if (b.y0 < t->bounds.y0) t->bounds.y0 = b.y0;
    if (b.x0 < t->bounds.x0) t->bounds.x0 = b.x0;
    if (b.y1 > t->bounds.y1) t->bounds.y1 = b.y1;
    if (b.x1 > t->bounds.x1) t->bounds.x1 = b.x1;
    s->y0[at] = b.y0, s->x0[at] = b.x0, s->y1[at] = b.y1, s->x1[at] = b.x1;
}

// Blocks of boxes that do not intersect b are skipped after comparisons.
static int nms_strip_overlaps(const nms_strips *s, const nms_strip *t, nms_box b, float threshold) {
    int64_t i, j, end = t->first + t->count;
    for (i = t->first; i < end; i += NMS_BLOCK) {
        int any = end - i < NMS_BLOCK;
        if (!any)
            for (j = i; j < i + NMS_BLOCK; j++)
                any |= (s->y0[j] < b.y1) & (b.y0 < s->y1[j]) & (s->x0[j] < b.x1) & (b.x0 < s->x1[j]);
        for (j = i; j < i + NMS_BLOCK && j < end && any; j++) {
            nms_box a = {s->y0[j], s->x0[j], s->y1[j], s->x1[j]};
            if (nms_overlaps(b, a, threshold)) return 1;
        }
    }
    return 0;
}

static int nms_any_overlaps(const nms_strips *s, nms_box b, float threshold) {
    int i;
    for (i = 0; i < s->used; i++) {
        const nms_strip *t = &s->all[s->order[i]];
        if (t->bounds.y0 < b.y1 && b.y0 < t->bounds.y1 && t->bounds.x0 < b.x1 && b.x0 < t->bounds.x1 &&
            nms_strip_overlaps(s, t, b, threshold))
            return 1;
    }
    return 0;
}

// Writes the selected boxes of a class to out[2], out[5] ... and returns their number. room: 4 n floats.
static int64_t nms_select(const float *boxes, int centred, float threshold, lib_pair *pairs, int64_t count,
                          int64_t most, float *room, int64_t *out) {
    int64_t i, kept = 0;
    int heap = nms_is_heap(count, most);
    nms_strips s;
    nms_prepare(&s, boxes, centred, pairs, count, room);
    for (i = 0; i < count && kept < most; i++) {
        int64_t box = heap ? nms_pop(pairs, count - i) : pairs[i].index;
        nms_box b = nms_corners(boxes + 4 * box, centred);
        int solid = (b.y1 - b.y0) * (b.x1 - b.x0) > 0;
        if (solid && nms_any_overlaps(&s, b, threshold)) continue;
        if (solid) nms_keep(&s, b);
        out[3 * kept++ + 2] = box;
    }
    return kept;
}

ONNXC_LIB int onnxc_lib_nms(void **call, void *const *data, const int64_t *numbers) {
    int64_t batches = numbers[0], classes = numbers[1], n = numbers[2], most = numbers[3], b, c, i, kept;
    int64_t *out = (int64_t *)data[0], total = 0;
    lib_pair *pairs = (lib_pair *)data[2];
    const float *iou = (const float *)data[5];
    (void)call;
    for (b = 0; b < batches && most > 0; b++)
        for (c = 0; c < classes; c++) {
            const float *boxes = (const float *)data[3] + b * n * 4;
            const float *scores = (const float *)data[4] + (b * classes + c) * n;
            kept = nms_candidates(scores, n, (const float *)data[6], most, pairs);
            kept = nms_select(boxes, numbers[4] != 0, iou ? *iou : 0, pairs, kept, most, (float *)(pairs + n),
                              out + 3 * total);
            for (i = 0; i < kept; i++, total++) out[3 * total] = b, out[3 * total + 1] = c;
        }
    *(int64_t *)data[1] = total;
    return 0;
}
