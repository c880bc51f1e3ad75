// An object that wants interface 2 does not link with this runtime, which has interface 1: the linker's
// complaint about the symbol below says so. (A runtime of version N has such a file for its neighbours.)
void onnxc_error_object_has_interface_2_but_runtime_has_interface_1(void);
int onnxc_interface_2(void);
int onnxc_interface_2(void) {
    onnxc_error_object_has_interface_2_but_runtime_has_interface_1();
    return 0;
}
