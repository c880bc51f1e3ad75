// Objects with interface 3 do not link with this runtime, which has interface 2. The undefined symbol below
// makes the linker say so. (A runtime of version N has such a file for the adjacent versions.)
void onnxc_error_object_has_interface_3_but_runtime_has_interface_2(void);
int onnxc_interface_3(void);
int onnxc_interface_3(void) {
    onnxc_error_object_has_interface_3_but_runtime_has_interface_2();
    return 0;
}
