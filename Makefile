# make [MODE=release|debug|san] [CC=clang]     build build/$(MODE)/onnxc and its runtime
# make test                                    the whole test run
MODE    ?= release
B       := build/$(MODE)
VERSION := $(shell cat VERSION)
LLVM_CONFIG ?= llvm-config-19

FLAGS_release := -O2 -DNDEBUG
FLAGS_debug   := -O0 -g
FLAGS_san     := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all
WARN   := -Wall -Wextra -Werror -Wswitch -Wno-missing-field-initializers -Wno-missing-braces
CFLAGS += -std=c11 -D_GNU_SOURCE $(WARN) $(FLAGS_$(MODE)) -fPIC -MMD -MP -I. -I$(B) \
          -I$(shell $(LLVM_CONFIG) --includedir) -DONNXC_VERSION='"$(VERSION)"'
LDLIBS := -lprotobuf-c $(shell $(LLVM_CONFIG) --libs --ldflags) -lm -lpthread -ldl

LIB_C  := $(wildcard compiler/base/*.c compiler/import/*.c compiler/lib/*.c ir/*.c ir/ops/*.c passes/*.c codegen/*.c)
CLI_C  := $(wildcard compiler/*.c)
RT_C   := $(wildcard runtime-lite/*.c)
UNIT_C := $(wildcard test/unit/*.c)
LIB_O  := $(LIB_C:%.c=$(B)/%.o) $(B)/proto/onnx.pb-c.o
CLI_O  := $(CLI_C:%.c=$(B)/%.o)
RT_O   := $(RT_C:%.c=$(B)/%.o)
UNIT   := $(UNIT_C:test/unit/%.c=$(B)/unit/%)

all: $(B)/onnxc $(B)/libonnxc-rt.a
unit: $(UNIT)

$(B)/onnxc: $(CLI_O) $(B)/libonnxc.a
	$(CC) $(CFLAGS) -o $@ $^ $(LDLIBS)
$(B)/libonnxc.a: $(LIB_O)
	rm -f $@ && ar rcs $@ $^
$(B)/libonnxc-rt.a: $(RT_O)
	rm -f $@ && ar rcs $@ $^
$(B)/unit/%: test/unit/%.c $(B)/libonnxc.a $(B)/libonnxc-rt.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -o $@ $< $(B)/libonnxc.a $(B)/libonnxc-rt.a -lcmocka $(LDLIBS)
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c -o $@ $<
$(LIB_O): | $(B)/proto/onnx.pb-c.h
$(B)/proto/onnx.pb-c.c $(B)/proto/onnx.pb-c.h &: proto/onnx.proto
	@mkdir -p $(B)/proto
	protoc-c --c_out=$(B)/proto -Iproto $<
$(B)/proto/onnx.pb-c.o: $(B)/proto/onnx.pb-c.c
	$(CC) $(CFLAGS) -c -o $@ $<
clean:
	rm -rf build
.PHONY: all unit clean
.SECONDARY:
-include $(LIB_O:.o=.d) $(CLI_O:.o=.d) $(RT_O:.o=.d) $(UNIT:=.d)
