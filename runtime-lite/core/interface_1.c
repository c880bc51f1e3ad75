// Objects with interface 1 do not link with this runtime, which has interface 2. The undefined symbol below
// makes the linker say so. (A runtime of version N has such a file for the adjacent versions.)
void onnxc_error_object_has_interface_1_but_runtime_has_interface_2(void);
int onnxc_interface_1(void);
int onnxc_interface_1(void) {
    onnxc_error_object_has_interface_1_but_runtime_has_interface_2();
    return 0;
}
