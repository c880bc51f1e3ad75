# make wheel             build/wheel/onnxc-VERSION-py3-none-manylinux_*.whl, with everything but libc and libgcc_s inside
#
# libonnxc.so contains LLVM, LLD and the command line; onnxc and ld.lld are small programs that call it.
CXX   ?= g++
WHEEL := $(B)/wheel
WHEEL_TARGETS := X86 AArch64 ARM RISCV # ARCHS in codegen/target/target_impl.h
WHEEL_OTHERS = $(filter-out $(WHEEL_TARGETS),$(shell $(LLVM_CONFIG) --targets-built))
WHEEL_LLVM = -L$(shell $(LLVM_CONFIG) --libdir) -Wl,--start-group -llldELF -llldCommon \
    $(filter-out -lPolly%,$(shell $(LLVM_CONFIG) --link-static --libs x86 aarch64 arm riscv passes orcjit lto option)) -Wl,--end-group \
    $(foreach target,$(WHEEL_OTHERS),$(foreach part,TargetInfo Target TargetMC AsmPrinter AsmParser,\
        -Wl,--defsym,LLVMInitialize$(target)$(part)=onnxc_no_target))
# Until glibc 2.34 these were libraries of their own.
WHEEL_OLD := -Wl,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2 -Wl,--as-needed

$(WHEEL)/glibc.o: tools/wheel/glibc.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 $(WARN) -Wno-deprecated-declarations -fPIC -c -o $@ $<
$(WHEEL)/lld.o: tools/wheel/lld.cpp
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -O2 -fPIC -fno-exceptions -fno-rtti -fvisibility=hidden -I$(shell $(LLVM_CONFIG) --includedir) -c -o $@ $<
$(WHEEL)/main.o: compiler/cli/main.c | $(CLI_O)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -fvisibility=default -Dmain=onnxc_main -c -o $@ $<
# Debian's archive is for programs only: in a shared library, code has no direct access to variables of libc. Jansson only
# compares files with this one.
$(WHEEL)/libjansson.a: $(shell $(CC) -print-file-name=libjansson.a)
	@mkdir -p $(@D)
	objcopy --redefine-sym stdin=onnxc_no_stdin $< $@
$(WHEEL)/libonnxc.so: $(LIB_O) $(filter-out %/main.o,$(CLI_O)) $(addprefix $(WHEEL)/,main.o lld.o glibc.o libjansson.a) \
        $(B)/libonnxc-rt.a tools/wheel/libonnxc.map
	$(CXX) -shared -s -Wl,-soname,libonnxc.so.0 -Wl,-z,nodelete -Wl,-z,defs -Wl,--version-script=tools/wheel/libonnxc.map \
	    -Wl,--gc-sections -o $@ $(filter %.o %.a,$^) $(WHEEL_LLVM) \
	    -Wl,-Bstatic -lprotobuf-c -lz -lzstd -Wl,-Bdynamic -static-libstdc++ $(WHEEL_OLD) -lm
$(WHEEL)/onnxc: PROGRAM := onnxc_main $$ORIGIN/../lib
$(WHEEL)/ld.lld: PROGRAM := onnxc_lld $$ORIGIN/..
$(WHEEL)/onnxc $(WHEEL)/ld.lld: tools/wheel/program.c tools/wheel/glibc.c $(WHEEL)/libonnxc.so
	$(CC) $(CFLAGS) -s -DFUNCTION=$(word 1,$(PROGRAM)) -DONNXC_PROGRAM -Wl,-rpath,'$(word 2,$(PROGRAM))' -o $@ $^
$(WHEEL)/libonnxc-rt.a: $(B)/libonnxc-rt.a
	@mkdir -p $(@D)
	cp $< $@

wheel: $(addprefix $(WHEEL)/,onnxc ld.lld libonnxc.so libonnxc-rt.a)
	sh tools/wheel/wheel.sh $(WHEEL) $(VERSION) build/wheel $(PYTHON)
.PHONY: wheel
