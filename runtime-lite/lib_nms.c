// NonMaxSuppression. Written: triples (batch, class, box) of those selected, their number, scratch of 2 n
// pairs. Read: boxes [batches, n, 4], scores [batches, classes, n], IoU threshold, score threshold (NULL:
// none). Numbers: batches, classes, n, most boxes of a class, whether boxes are centre and size. In each
// class the best score comes first, of equal ones the lower index; a box goes that overlaps a better one by
// more than the threshold.
#include "runtime-lite/lib.h"
#include "runtime-lite/lib_key.h"

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

// Candidates in order of their scores, the best first.
static int64_t nms_candidates(const float *scores, int64_t n, const float *threshold, lib_pair *pairs) {
    int64_t i, count = 0;
    for (i = 0; i < n; i++) {
        if (threshold && !(scores[i] > *threshold)) continue;
        pairs[count].key = ~lib_key(LIB_F32, scores, i), pairs[count].index = i;
        count++;
    }
    lib_sort(pairs, pairs + n, count);
    return count;
}

// Of one class: those that stay move to the front of pairs; their number.
static int64_t nms_select(const float *boxes, int centred, float threshold, lib_pair *pairs, int64_t count,
                          int64_t most) {
    int64_t i, j, kept = 0;
    for (i = 0; i < count && kept < most; i++) {
        nms_box b = nms_corners(boxes + 4 * pairs[i].index, centred);
        for (j = 0; j < kept; j++)
            if (nms_overlaps(b, nms_corners(boxes + 4 * pairs[j].index, centred), threshold)) break;
        if (j == kept) pairs[kept++] = pairs[i];
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
            kept = nms_candidates(scores, n, (const float *)data[6], pairs);
            kept = nms_select(boxes, numbers[4] != 0, iou ? *iou : 0, pairs, kept, most);
            for (i = 0; i < kept; i++, total++)
                out[3 * total] = b, out[3 * total + 1] = c, out[3 * total + 2] = pairs[i].index;
        }
    *(int64_t *)data[1] = total;
    return 0;
}
