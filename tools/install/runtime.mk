# Builds onnxc's runtime library for any target:
#
#     make -f PREFIX/share/onnxc/runtime/Makefile CC=aarch64-linux-gnu-gcc B=out         makes out/libonnxc-rt.a
HERE := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
$(if $(wildcard $(HERE)/runtime-lite),,$(error make cannot use this file in a folder with spaces in its name: include it through a symbolic link))
B    ?= .
AR   := $(if $(filter default,$(origin AR)),$(or $(shell $(CC) -print-prog-name=ar),ar),$(AR))
MACHINE := $(shell $(CC) -dumpmachine)
# Without an operating system it contains the library functions only.
WASM := $(filter wasm32-%,$(MACHINE))
BARE := $(if $(findstring linux,$(MACHINE))$(WASM),,1)
ROOM := $(HERE)/runtime-lite/$(if $(BARE),lib,*)
# WebAssembly has no threads, libraries to open or GPUs.
NOT_WASM := $(wildcard $(HERE)/runtime-lite/cuda/*.c $(HERE)/runtime-lite/system/system_thread.c $(foreach name,cpus glibc_loader glibc_threads shared_library threads,$(HERE)/runtime-lite/core/$(name).c))
SRC  := $(filter-out $(if $(WASM),$(NOT_WASM)),$(wildcard $(ROOM)/*.c $(ROOM)/*/*.c))
OBJ  := $(patsubst $(HERE)/runtime-lite/%.c,$(B)/%.o,$(SRC))
FLAGS := -std=c11 -D_GNU_SOURCE $(if $(BARE),-Os -ffreestanding -ffunction-sections,$(if $(WASM),-O2 -mbulk-memory -mnontrapping-fptoint,-O2 -fPIC)) -fvisibility=hidden $(if $(findstring aarch64,$(MACHINE)),-mno-outline-atomics) \
         $(if $(filter x86_64-% i686-%,$(MACHINE)),-fcf-protection) $(if $(filter aarch64-%,$(MACHINE)),-mbranch-protection=standard)

$(B)/libonnxc-rt.a: $(OBJ)
	rm -f $@ && $(AR) rcsD $@ $^
$(B)/%.o: $(HERE)/runtime-lite/%.c
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(CFLAGS) -I$(HERE) -c -o $@ $<
