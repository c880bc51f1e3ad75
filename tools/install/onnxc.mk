# onnxc.mk: models as prerequisites. In a makefile:
#
#     include PREFIX/share/onnxc/onnxc.mk
#     app: main.o mnist.o $(ONNXC_RUNTIME)
#     main.o: mnist.h
#
# `%.o: %.onnx` compiles mnist.onnx to mnist.o and mnist.h for the machine that $(CC) compiles for, with the machine
# flags (-mcpu=..., -mfpu=...) of CFLAGS and CPPFLAGS.
#
#   ONNXC          the compiler
#   ONNXCFLAGS     options for every model; name.o: ONNXCFLAGS += ... for one
#   ONNXC_RUNTIME  the runtime library, for models that need it: threads, several CPU levels, tensors from malloc.
#                  When cross-compiling it is built with $(CC); empty for targets without an operating system.
# Do not name an object after its model's file (foo.onnx.o): make's built-in rule '%: %.o' would be circular.
ONNXC_GOAL   := $(.DEFAULT_GOAL)
ONNXC_PREFIX := $(patsubst %/share/onnxc/onnxc.mk,%,$(abspath $(lastword $(MAKEFILE_LIST))))
$(if $(wildcard $(ONNXC_PREFIX)/share/onnxc/onnxc.mk),,$(error make cannot use this file in a folder with spaces in its name: include it through a symbolic link))
ONNXC        ?= $(ONNXC_PREFIX)/bin/onnxc
ONNXCFLAGS   ?=
ONNXC_TRIPLE ?= $(shell $(CC) $(filter -m32 -m64 --target=%,$(CC) $(CFLAGS) $(CPPFLAGS)) -dumpmachine)
ONNXC_MACHINE = --target=$(ONNXC_TRIPLE) $(filter-out -mtune=%,$(filter -m%,$(CC) $(CFLAGS) $(CPPFLAGS)))

ifneq ($(filter %-none-% %-none %-elf %-eabi %-eabihf,$(filter-out %-linux-gnueabi %-linux-gnueabihf,$(ONNXC_TRIPLE))),)
ONNXC_RUNTIME :=
else ifeq ($(ONNXC_TRIPLE),$(shell cc -dumpmachine 2>/dev/null))
ONNXC_RUNTIME := $(ONNXC_PREFIX)/@LIBDIR@/libonnxc-rt.a
else
ONNXC_RUNTIME := onnxc-runtime/$(ONNXC_TRIPLE)/libonnxc-rt.a
$(ONNXC_RUNTIME):
	$(MAKE) -f $(ONNXC_PREFIX)/share/onnxc/runtime/Makefile B=$(@D) CC="$(CC)" CFLAGS="$(CFLAGS)"
endif

%.o %.h: %.onnx
	$(ONNXC) $(ONNXC_MACHINE) $(ONNXCFLAGS) $< -o $*.o --header $*.h -MF $*.onnx.d

-include $(wildcard *.onnx.d */*.onnx.d */*/*.onnx.d */*/*/*.onnx.d)
# The first rule of the including makefile stays the default goal.
.DEFAULT_GOAL := $(ONNXC_GOAL)
