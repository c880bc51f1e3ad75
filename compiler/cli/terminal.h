// Terminals that standard output and standard error may be.
#ifndef ONNXC_COMPILER_CLI_TERMINAL_H
#define ONNXC_COMPILER_CLI_TERMINAL_H

int terminal_columns(int fd); // 0: no terminal, or not known
#endif
