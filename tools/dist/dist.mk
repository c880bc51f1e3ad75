# make static [B=...]   onnxc, libonnxc.so, ld.lld and libonnxc-rt.a in $(B)/static, with everything but glibc (2.27 or later) inside
# make dist             build/dist/onnxc-VERSION-MACHINE.tar.xz: a tree that may be unpacked anywhere (docs/installation.md)
# make wheel            build/wheel/onnxc-VERSION-py3-none-manylinux_*.whl with the same tree
# make deb              Debian packages in build/deb
#
# libonnxc.so contains LLVM, LLD and the command line; onnxc and ld.lld are small programs that call it.
CXX    ?= g++
STATIC := $(B)/static
STATIC_TARGETS := X86 AArch64 ARM RISCV WebAssembly # ARCHS in codegen/target/target_impl.h
STATIC_OTHERS = $(filter-out $(STATIC_TARGETS),$(shell $(LLVM_CONFIG) --targets-built))
# Debian's archives of LLVM refer to Polly, but only in code that is not linked.
STATIC_LLVM = -L$(shell $(LLVM_CONFIG) --libdir) -Wl,--start-group -llldELF -llldWasm -llldCommon \
    $(filter-out -lPolly%,$(shell $(LLVM_CONFIG) --link-static --libs $(LLVM_PARTS) lto option)) -Wl,--end-group \
    $(foreach target,$(STATIC_OTHERS),$(foreach part,TargetInfo Target TargetMC AsmPrinter AsmParser,\
        -Wl,--defsym,LLVMInitialize$(target)$(part)=onnxc_no_target))
# Until glibc 2.34 these were libraries of their own.
STATIC_OLD := -Wl,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2 -Wl,--as-needed

$(STATIC)/glibc.o: tools/dist/glibc.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 $(WARN) -Wno-deprecated-declarations -fPIC -c -o $@ $<
$(STATIC)/lld.o: tools/dist/lld.cpp
	@mkdir -p $(@D)
	@test -f $(shell $(LLVM_CONFIG) --includedir)/lld/Common/Driver.h || { echo "LLD's headers are missing: tools/install.sh packages" >&2; exit 1; }
	$(CXX) -std=c++17 -O2 -fPIC -fno-exceptions -fno-rtti -fvisibility=hidden -I$(shell $(LLVM_CONFIG) --includedir) -c -o $@ $<
$(STATIC)/main.o: compiler/cli/main.c | $(CLI_O)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -fvisibility=default -Dmain=onnxc_main -c -o $@ $<
# Debian's archive is for programs only: in a shared library, code has no direct access to variables of libc. Jansson only
# compares files with this one.
$(STATIC)/libjansson.a: $(shell $(CC) -print-file-name=libjansson.a)
	@mkdir -p $(@D)
	objcopy --redefine-sym stdin=onnxc_no_stdin $< $@
$(STATIC)/libonnxc.so: $(LIB_O) $(filter-out %/main.o,$(CLI_O)) $(addprefix $(STATIC)/,main.o lld.o glibc.o libjansson.a) \
        $(B)/libonnxc-rt.a tools/dist/libonnxc.map
	$(CXX) -shared -s -Wl,-soname,libonnxc.so.0 -Wl,-z,nodelete -Wl,-z,defs -Wl,--version-script=tools/dist/libonnxc.map \
	    -Wl,--gc-sections -o $@ $(filter %.o %.a,$^) $(STATIC_LLVM) \
	    -Wl,-Bstatic -lprotobuf-c -lz -lzstd -Wl,-Bdynamic -static-libstdc++ -static-libgcc $(STATIC_OLD) -lm
$(STATIC)/onnxc: PROGRAM := onnxc_main ../lib
$(STATIC)/ld.lld: PROGRAM := onnxc_lld ..
$(STATIC)/onnxc $(STATIC)/ld.lld: tools/dist/program.c tools/dist/glibc.c | $(STATIC)/libonnxc.so
	$(CC) $(CFLAGS) -s -DFUNCTION='"$(word 1,$(PROGRAM))"' -DFOLDER='"$(word 2,$(PROGRAM))"' -DONNXC_PROGRAM -o $@ $^ $(STATIC_OLD)
$(STATIC)/libonnxc-rt.a: $(B)/libonnxc-rt.a
	@mkdir -p $(@D)
	cp $< $@
static: $(addprefix $(STATIC)/,onnxc libonnxc.so ld.lld libonnxc-rt.a)

dist: static
	sh tools/dist/dist.sh $(STATIC) $(VERSION) build/dist
wheel: static
	sh tools/dist/wheel.sh $(STATIC) $(VERSION) build/wheel $(PYTHON)
deb:
	sh packaging/debian.sh $(VERSION) build/deb
.PHONY: static dist wheel deb
