// The width of a terminal.
#include "compiler/cli/terminal.h"
#include <sys/ioctl.h>

int terminal_columns(int fd) {
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}
