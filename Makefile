# make [MODE=release|debug|san] [CC=clang]     build/$(MODE): onnxc, libonnxc, libonnxc-rt
# make install PREFIX=... [DESTDIR=...] [LIBDIR=lib/x86_64-linux-gnu]    a tree that may be moved
# make dist; make wheel; make deb              the same for other machines: an archive, a Python wheel, Debian packages (tools/dist/dist.mk)
# make test                                    the whole test run
# make bench [ARGS="--threads 2 resnet18"]     whole networks against ONNX Runtime and OpenVINO
# make bench-wasm [ARGS="--seconds 5"]         models as ES modules in Node.js
# make bench-kernels                           products and convolutions against the machine's peak
# make test-gpu [ARGS="--forms cuda --from 400"]   the cases on this machine's GPU against the expected answers
# make bench-gpu [ARGS="--batch 1 gemm4096"]   networks and products on it, beside other engines that are installed
# make exports [ONLY=resnet,bert]              models of torch's exporters against ONNX Runtime, with torch from PyPI (6 GB)
# make tools [ARGS="--only=bert,llama"]         models of ONNX Runtime's optimisers, quantisers and builder, with the same packages
# make decoders [ARGS="--only=llama,static"]   language models of the builder and of torch, 64 tokens against ONNX Runtime
# make fuzz                                    the importer under libFuzzer for 60 s
# make random                                  2,000 random graphs in all forms, for hours
# make runtime B=build/aarch64 CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar CFLAGS=-mno-outline-atomics
#                                              the runtime for another machine
# make runtime B=build/wasm CC="clang-19 --target=wasm32-wasi -nostdlibinc -isystem /usr/include/wasm32-wasi" AR=llvm-ar-19
#                                              the runtime for WebAssembly (docs/wasm.md)
# make runtime B=build/cortex-m4 CC="arm-none-eabi-gcc -mcpu=cortex-m4 ..." AR=arm-none-eabi-ar
#                                              its functions for a bare machine (docs/firmware.md)
MODE    ?= release
B       ?= build/$(MODE)
VERSION := $(shell cat VERSION)
PYTHON  ?= python3
LLVM_CONFIG ?= llvm-config-19

FLAGS_release := -O2 -DNDEBUG
FLAGS_debug   := -O0 -g
# Undefined behaviour traps, which compiles in three quarters of the time that messages take: `make MODE=san UBSAN=` has messages.
# -Og compiles in two thirds of the time of -O1.
UBSAN   ?= -fsanitize-undefined-trap-on-error
FLAGS_san     := -Og -g1 -fsanitize=address,undefined -fno-sanitize-recover=all $(UBSAN)
FLAGS_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
WARN   := -Wall -Wextra -Werror -Wswitch -Wno-missing-field-initializers -Wno-missing-braces
override CFLAGS += -std=c11 -D_GNU_SOURCE $(WARN) $(FLAGS_$(MODE)) -fPIC -fvisibility=hidden -MMD -MP -I. -I$(B) \
          -I$(shell $(LLVM_CONFIG) --includedir) -DONNXC_VERSION='"$(VERSION)"'
LLVM_PARTS := x86 aarch64 arm riscv webassembly passes orcjit
LDLIBS := -lprotobuf-c -ljansson -lz $(shell $(LLVM_CONFIG) --libs --ldflags) -lm -lpthread -ldl

CLI_C  := $(wildcard compiler/cli/*.c)
LIB_C  := $(filter-out $(CLI_C),$(foreach depth,*.c */*.c */*/*.c,$(wildcard $(addsuffix /$(depth),compiler ir passes codegen))))
MACHINE := $(shell $(CC) -dumpmachine)
# WebAssembly has no threads, libraries to open or GPUs.
RT_NOT_WASM := $(wildcard runtime-lite/cuda/*.c runtime-lite/system/system_thread.c $(foreach name,cpus glibc_loader glibc_threads shared_library threads,runtime-lite/core/$(name).c))
# Bare machines have only what models call.
BARE   := $(filter %-none-eabi %-none-eabihf %-elf,$(MACHINE))
RT_C   := $(filter-out $(if $(filter wasm32-%,$(MACHINE)),$(RT_NOT_WASM)),$(wildcard $(if $(BARE),,runtime-lite/*/*.c) runtime-lite/lib/*.c runtime-lite/*/*/*.c))
UNIT_C := $(wildcard test/unit/*.c)
LIB_O  := $(LIB_C:%.c=$(B)/%.o) $(B)/proto/onnx.pb-c.o $(B)/library_source.o $(B)/prelude_source.o $(B)/report_page.o \
          $(B)/operators_notes.o $(B)/javascript_loader.o
# Library functions, whose text goes into emitted C.
LIBRARY := $(sort runtime-lite/onnxc_custom.h runtime-lite/lib/dtypes.h $(wildcard runtime-lite/lib/lib_*.h runtime-lite/lib/lib_*.c runtime-lite/lib/*/*.c))
CLI_O  := $(CLI_C:%.c=$(B)/%.o)
RT_O   := $(RT_C:%.c=$(B)/%.o)
BENCH  := $(patsubst test/bench/%.c,$(B)/bench/%,$(wildcard test/bench/*.c))
UNIT   := $(UNIT_C:test/unit/%.c=$(B)/unit/%)
LIBS   := $(B)/libonnxc.a $(B)/libonnxc-rt.a

# What emitted code links with must not need the sanitizers.
$(B)/runtime-lite/lib/%.o: FLAGS_release := $(if $(BARE),-Os,-O3) -DNDEBUG
$(RT_O): FLAGS_san := -O1 -g
$(RT_O): FLAGS_fuzz := -O1 -g
# A program is marked as safe for CET or BTI where all of its objects are, as emitted ones are.
$(RT_O): override CFLAGS += $(if $(BARE),-fno-pic -ffunction-sections) $(if $(filter wasm32-%,$(MACHINE)),-fno-pic -mbulk-memory -mnontrapping-fptoint) $(if $(filter x86_64-% i686-%,$(MACHINE)),-fcf-protection) $(if $(filter aarch64-%,$(MACHINE)),-mbranch-protection=standard)
# Projects build it themselves, with warnings of theirs.
$(RT_O): WARN := -Wall -Wextra -Werror

all: $(B)/onnxc $(B)/libonnxc.so $(LIBS)
unit: $(UNIT)
runtime: $(B)/libonnxc-rt.a

# With LLVM inside, the program starts in a third of the time, most of which relocates LLVM's shared library.
LLD     ?= $(shell $(LLVM_CONFIG) --bindir)/ld.lld
LLVM_LINK ?= $(if $(and $(filter release,$(MODE)),$(findstring linux,$(MACHINE)),$(wildcard $(shell $(LLVM_CONFIG) --libdir)/libLLVMCore.a),$(wildcard $(LLD)),$(filter /%,$(shell $(CC) -print-file-name=libzstd.so))),static,shared)
$(B)/onnxc: LLVM_STATIC = -B$(dir $(LLD)) -fuse-ld=lld -no-pie -Wl,--gc-sections $(shell $(LLVM_CONFIG) --link-static --ldflags --libs $(LLVM_PARTS)) -lstdc++ -lzstd
$(B)/onnxc: $(CLI_O) $(LIBS)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(if $(filter static,$(LLVM_LINK)),$(LLVM_STATIC) $(filter-out -lLLVM%,$(LDLIBS)),$(LDLIBS))
$(B)/libonnxc.so: $(LIB_O) $(B)/libonnxc-rt.a
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libonnxc.so.0 -Wl,-z,nodelete -o $@ $^ $(LDLIBS)
$(B)/libonnxc.a: $(LIB_O)
	rm -f $@ && $(AR) rcsD $@ $^
$(B)/libonnxc-rt.a: $(RT_O)
	rm -f $@ && $(AR) rcsD $@ $^
$(B)/unit/%: test/unit/%.c $(LIBS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -MF $@.d -o $@ $< $(LIBS) -lcmocka $(LDLIBS)
$(B)/bench/%: test/bench/%.c $(LIBS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -MF $@.d -o $@ $< $(LIBS) $(LDLIBS)
# What the tests put in the place of NVRTC and CUDA's driver.
doubles: $(B)/doubles/libcuda.so.1 $(B)/doubles/old/libcuda.so.1 $(B)/doubles/libnvrtc.so.12 $(B)/doubles/cuda_shim.o
$(B)/doubles/old/libcuda.so.1: DOUBLE := -DOLD_DRIVER
$(B)/doubles/libcuda.so.1 $(B)/doubles/old/libcuda.so.1: test/shim/cuda_double.c runtime-lite/cuda/cuda.h
	@mkdir -p $(@D)
	$(CC) -std=c11 -O1 $(WARN) -I. -fPIC -shared -Wl,-soname,$(@F) $(DOUBLE) -DSHIM_OBJECT='"$(abspath $(B)/doubles/cuda_shim.o)"' \
	    -DSHIM_FOLDER='"$(abspath test/shim)"' -o $@ $< -ldl -lpthread
$(B)/doubles/libnvrtc.so.12: test/shim/nvrtc_double.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -O1 $(WARN) -D_GNU_SOURCE -fPIC -shared -Wl,-soname,$(@F) -o $@ $<
$(B)/doubles/cuda_shim.o: test/shim/cuda_shim.c test/shim/cuda_shim.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O1 -fPIC -c -o $@ $<
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c -o $@ $<
# Objects with and without messages of the sanitizers do not link with each other.
ifeq ($(MODE),san)
FLAGS := $(CC) $(CFLAGS)
$(B)/flags: always
	$(shell mkdir -p $(@D))$(file >$@.new,$(FLAGS))
	@cmp -s $@.new $@ || cp $@.new $@
$(LIB_O) $(CLI_O) $(RT_O) $(UNIT): $(B)/flags
endif
$(LIB_O): | $(B)/proto/onnx.pb-c.h
$(B)/proto/onnx.pb-c.c $(B)/proto/onnx.pb-c.h &: proto/onnx.proto
	@mkdir -p $(B)/proto
	protoc-c --c_out=$(B)/proto -Iproto $<
$(B)/proto/onnx.pb-c.o: $(B)/proto/onnx.pb-c.c
	$(CC) $(CFLAGS) -c -o $@ $<

PREFIX  ?= /usr/local
LIBDIR  ?= lib
install: all
	LIBDIR="$(LIBDIR)" sh tools/install/install.sh $(B) $(VERSION) "$(DESTDIR)$(PREFIX)" "$(LLD)"

# The texts that onnxc embeds. They name headers, and lists of files: other ones in this file, or in a folder, make them anew.
EMBEDDED = $(filter %.awk %.h %.c %.cuh %.html,$^)
$(B)/library_source.c: tools/embed.awk $(LIBRARY) Makefile $(sort $(dir $(LIBRARY)))
	@mkdir -p $(@D)
	awk -f $(EMBEDDED) >$@
$(B)/library_source.o: $(B)/library_source.c
	$(CC) $(CFLAGS) -c -o $@ $<

$(B)/prelude_source.c: tools/embed_prelude.awk codegen/c/prelude/c99.h codegen/c/prelude/cuda.cuh Makefile
	@mkdir -p $(@D)
	awk -f $(EMBEDDED) >$@
$(B)/prelude_source.o: $(B)/prelude_source.c
	$(CC) $(CFLAGS) -c -o $@ $<

PAGE := compiler/report/page
PAGE_JS := $(patsubst %,$(PAGE)/%.js,base groups repeats order coordinates layout scene view details charts tables main)
$(B)/report_page.c: tools/embed_text.awk $(PAGE)/style.css $(PAGE)/body.html $(PAGE_JS) Makefile
	@mkdir -p $(@D)
	awk -v name=report_style -v header=compiler/report/report_impl.h -f $< $(PAGE)/style.css >$@
	awk -v name=report_body -v header=compiler/report/report_impl.h -f $< $(PAGE)/body.html >>$@
	awk -v name=report_script -v header=compiler/report/report_impl.h -f $< $(filter %.js,$^) >>$@
$(B)/report_page.o: $(B)/report_page.c
	$(CC) $(CFLAGS) -c -o $@ $<

$(B)/operators_notes.c: tools/embed_text.awk compiler/cli/operators_notes.md
	@mkdir -p $(@D)
	awk -v name=operators_notes -v header=compiler/cli/command.h -f $^ >$@
$(B)/operators_notes.o: $(B)/operators_notes.c
	$(CC) $(CFLAGS) -c -o $@ $<

$(B)/javascript_loader.c: tools/embed_text.awk codegen/host/loader.js
	@mkdir -p $(@D)
	awk -v name=javascript_loader -v header=codegen/host/javascript.h -f $^ >$@
$(B)/javascript_loader.o: $(B)/javascript_loader.c
	$(CC) $(CFLAGS) -c -o $@ $<

test:
	sh test/run.sh
# The programs behind the figures of docs/measurements.md: shares of the peak that the same run measures.
bench-kernels: $(BENCH)
	@for t in $(BENCH); do echo "$$(basename $$t):"; $$t || failed="$$failed $$(basename $$t)"; done; \
	    [ -z "$$failed" ] || { echo "bench-kernels: too slow, wrong or failed, see above:$$failed" >&2; exit 1; }
bench:
	sh test/bench/run.sh $(ARGS)
# On a machine with a GPU; without one they say so and end well.
test-gpu bench-gpu: PYTHON := $(firstword $(wildcard build/venv/bin/python) python3)
test-gpu: all
	$(PYTHON) -W ignore test/run.py cuda $(ARGS)
bench-gpu: all
	$(PYTHON) test/bench/gpu.py $(B)/onnxc $(ARGS)
# Flash, RAM and instructions of models on a Cortex-M in qemu.
bench-firmware: all
	$(firstword $(wildcard build/venv/bin/python) python3) test/bench/firmware.py $(B)/onnxc $(ARGS)
# Instructions with RISC-V's vectors in qemu.
bench-riscv: all
	$(MAKE) -s runtime B=build/riscv64 CC=riscv64-linux-gnu-gcc AR=riscv64-linux-gnu-ar
	$(firstword $(wildcard build/venv/bin/python) python3) test/bench/riscv.py $(B)/onnxc build/riscv64/libonnxc-rt.a $(ARGS)
# Models as ES modules in Node.js, against the roofline of its SIMD.
bench-wasm: all
	$(MAKE) -s runtime B=build/wasm CC="clang-19 --target=wasm32-wasi -nostdlibinc -isystem /usr/include/wasm32-wasi" AR=llvm-ar-19
	$(firstword $(wildcard build/venv/bin/python) python3) test/bench/wasm.py $(B)/onnxc build/wasm/libonnxc-rt.a $(ARGS)
exports:
	sh test/exports/run.sh $(if $(ONLY),--only $(ONLY))
tools:
	sh test/ort_tools/run.sh $(ARGS)
decoders:
	sh test/decoders/run.sh $(ARGS)
# Trained models out of packages of PyPI, against ONNX Runtime.
wild: all
	build/venv/bin/python test/wild/wild.py $(ARGS)
fuzz:
	sh test/fuzz/run.sh
accept: all
	build/venv/bin/python test/hostile/accept.py $(ARGS)
random: all
	build/venv/bin/python test/random/random_graphs.py --count 2000 --all --reduce
clean:
	rm -rf build
.PHONY: all always unit runtime doubles install test test-gpu bench bench-gpu bench-kernels bench-firmware bench-riscv bench-wasm exports tools decoders wild accept fuzz random clean
include tools/dist/dist.mk
-include $(LIB_O:.o=.d) $(CLI_O:.o=.d) $(RT_O:.o=.d) $(UNIT:=.d) $(BENCH:=.d)
