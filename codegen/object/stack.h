// The deepest stack of an object's functions: frames that the code generator reported, along the calls that
// relocations show.
#ifndef ONNXC_CODEGEN_OBJECT_STACK_H
#define ONNXC_CODEGEN_OBJECT_STACK_H
#include "codegen/object/elf.h"

// A function as the code generator left it.
typedef struct stack_frame {
    const char *name;
    int64_t bytes; // -1: not known
    bool indirect; // calls through a pointer
} stack_frame;
typedef VEC(stack_frame) stack_frames;

// The object with the frames of its functions, in a section that elf_write leaves out.
bytes stack_keep_frames(arena *a, diag *d, bytes object, const stack_frames *frames);
#define STACK_FRAMES_SECTION ".onnxc.frames"
struct elf_object;
void stack_drop_frames(struct elf_object *o);

// Of a call of any function that the object exports, below the stack pointer of the caller.
typedef struct stack_use {
    int64_t bytes;   // -1: not known
    const char *why; // it is not known; else NULL
    int64_t library; // counted for a function of the C library or of the compiler's support library; 0: none
    const char *others; // functions of the user's that are not counted; NULL: none
} stack_use;
// The object without the data of m, which elf_write adds. hook: the user's function, which is not counted; NULL: none.
stack_use stack_of_object(arena *a, diag *d, bytes object, const lmodule *m, const char *hook);
#endif
