/* Powers of ten that doubles hold exactly: a whole number below 2^53 times or by one of them is rounded once, so that it is the double
 * nearest to that decimal number. */
#ifndef ONNXC_LIB_DECIMAL_H
#define ONNXC_LIB_DECIMAL_H
#include "runtime-lite/lib/lib_base.h"

enum { LIB_TENS = 22 };

/* n: 0 to LIB_TENS. */
static double lib_ten_to(int n) {
    static const double powers[LIB_TENS + 1] = {1,    1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    return powers[n];
}
#endif
