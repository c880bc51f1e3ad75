// Runs one backend-test folder: model.onnx and test_data_set_K/{input,output}_J.pb.
#ifndef ONNXC_COMPILER_CLI_TEST_CASE_H
#define ONNXC_COMPILER_CLI_TEST_CASE_H
#include "compiler/driver/pipeline.h"

typedef struct test_options {
    const char *interpret, *form, *xfail, *cuda_shim;
    int64_t timeout;
    const options *compile;
} test_options;

typedef enum verdict { VERDICT_OK, VERDICT_MISSING, VERDICT_FAILED, VERDICT_DIFFERS } verdict;
// *message: the reason unless OK.
verdict test_case(arena *a, const test_options *o, const char *folder, const char **message);
#endif
