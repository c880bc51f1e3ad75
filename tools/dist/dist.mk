# make static [B=...]   onnxc, libonnxc.so and ld.lld in $(B)/static, with everything but libc inside
# make dist             build/dist/onnxc-VERSION-MACHINE.tar.xz: a tree that may be unpacked anywhere (docs/installation.md)
# make deb              Debian packages in build/deb
CXX    ?= g++
STATIC := $(B)/static
# Debian's archives of LLVM refer to Polly, but only in code that is not linked.
STATIC_LIBS = -ffunction-sections -Wl,--gc-sections -s -L$(shell $(LLVM_CONFIG) --libdir) $(1) \
    $(filter-out -lPolly%,$(shell $(LLVM_CONFIG) --link-static --libs)) \
    -Wl,-Bstatic -lprotobuf-c -lz -lzstd -lstdc++ -Wl,-Bdynamic -static-libgcc -lm -lpthread -ldl

# Debian's archive is for programs only: in a shared library, code has no direct access to variables of libc.
$(STATIC)/libjansson.a: $(shell $(CC) -print-file-name=libjansson.a)
	@mkdir -p $(@D)
	objcopy --redefine-sym stdin=onnxc_no_stdin $< $@
STATIC_O := $(B)/tools/dist/glibc.o $(STATIC)/libjansson.a

$(STATIC)/onnxc: $(CLI_O) $(LIBS) $(STATIC_O)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(STATIC_LIBS)
$(STATIC)/libonnxc.so: $(LIB_O) $(B)/libonnxc-rt.a $(STATIC_O) tools/dist/libonnxc.map
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libonnxc.so.0 -Wl,-z,nodelete -Wl,--version-script=tools/dist/libonnxc.map -o $@ \
	    $(filter %.o %.a,$^) $(STATIC_LIBS)
$(STATIC)/ld.lld: tools/dist/lld.cpp $(B)/tools/dist/glibc.o
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -O2 -fno-exceptions -fno-rtti -I$(shell $(LLVM_CONFIG) --includedir) -o $@ $^ $(call STATIC_LIBS,-llldELF -llldCommon)
$(STATIC)/libonnxc-rt.a: $(B)/libonnxc-rt.a
	@mkdir -p $(@D)
	cp $< $@
static: $(addprefix $(STATIC)/,onnxc libonnxc.so ld.lld libonnxc-rt.a)

dist: static
	sh tools/dist/dist.sh $(STATIC) $(VERSION) build/dist
deb:
	sh packaging/debian.sh $(VERSION) build/deb
.PHONY: static dist deb
