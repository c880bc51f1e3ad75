// The programs of archives and wheels: calls of a function of libonnxc. -DFUNCTION=onnxc_main, onnxc_lld
int FUNCTION(int argc, char **argv);
int main(int argc, char **argv) { return FUNCTION(argc, argv); }
