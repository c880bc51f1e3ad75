// Messages on standard error: text, one JSON object a line, or one SARIF document at the end.
#ifndef ONNXC_COMPILER_CLI_MESSAGE_H
#define ONNXC_COMPILER_CLI_MESSAGE_H
#include "compiler/cli/command.h"

bool message_terminal(void); // standard error is one
void messages_end(session *s);
#endif
