// The verbs of the command line. Each takes the arguments after the verb and returns the exit code.
#ifndef ONNXC_COMMAND_H
#define ONNXC_COMMAND_H
int command_test(int argc, char **argv);
#endif
