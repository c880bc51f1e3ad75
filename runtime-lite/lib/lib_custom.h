/* What a call of a custom operator's function (runtime-lite/onnxc_custom.h) is for. */
#ifndef ONNXC_LIB_CUSTOM_H
#define ONNXC_LIB_CUSTOM_H
typedef enum custom_purpose {
    CUSTOM_RUN,       /* to compute the outputs */
    CUSTOM_SHAPE,     /* to set their sizes */
    CUSTOM_WORKSPACE, /* to set the bytes of the workspace */
} custom_purpose;

enum {
    CUSTOM_NUMBERS = 5,         /* before those of the tensors */
    CUSTOM_TENSOR_BYTES = 32,   /* of an onnxc_custom_tensor, at most */
    CUSTOM_ATTRIBUTE_BYTES = 40 /* of an onnxc_custom_attribute, at most */
};
#endif
