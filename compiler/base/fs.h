// File names, and complete reads and writes of file descriptors.
#ifndef ONNXC_COMPILER_BASE_FS_H
#define ONNXC_COMPILER_BASE_FS_H
#include <stdbool.h>
#include <stddef.h>

// False: an error, or the end before n bytes. Resumes after signals.
bool read_all(int fd, void *to, size_t n);
bool write_all(int fd, const void *from, size_t n);
const char *base_name(const char *path);    // after the last slash
const char *extension_of(const char *path); // with the dot; "": none
bool path_exists(const char *path);
bool is_folder(const char *path);
bool is_stream(const char *path); // standard output, a device, a pipe or the name of a descriptor
bool is_stdout(const char *path); // "-" or /dev/stdout; path may be NULL
// Whether both name one regular file, also through links, or one that does not exist yet.
bool same_file(const char *a, const char *b);
bool ends_with(const char *s, const char *ending);
// Opens standard descriptors that are closed, so that a file that is opened later does not get one of them and
// // receive messages. Reading and writing them fails.
void open_standard_files(void);
#endif
