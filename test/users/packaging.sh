#!/bin/sh
# A model as part of a package: the same bytes from any folder and any number of jobs, dependencies for make, checks of the interface,
# distribution flags, a stripped library without needless symbols.
# in the environment: PREFIX, the installed onnxc; MODELS, a folder with digits.onnx
set -eu
PATH=$PREFIX/bin:$PATH
mkdir here there
cp "$MODELS/digits.onnx" here
cp "$MODELS/digits.onnx" there
(cd here && onnxc digits.onnx -j1 -o digits.o)
(cd there && onnxc digits.onnx -j4 --depfile digits.d -o digits.o)
cmp here/digits.o there/digits.o && echo "two folders, one and four jobs: the same bytes"
cat there/digits.d
CFLAGS="-O2 -g -fstack-protector-strong -mno-omit-leaf-frame-pointer -D_FORTIFY_SOURCE=2 -Wformat -Werror=format-security"
cat >Makefile <<END
include $PREFIX/share/onnxc/onnxc.mk
libdigits.so: digits.o
	\$(CC) -shared -Wl,-z,now,-z,relro,--fatal-warnings,-soname,libdigits.so.1 digits.o \$(ONNXC_RUNTIME) -lpthread -o \$@
END
cp here/digits.onnx .
make -s CFLAGS="$CFLAGS" && echo "built with a distribution's flags"
echo "symbols: $(nm -D --defined-only libdigits.so | awk '{ print $3 }' | tr '\n' ' ')"
onnxc inspect digits.onnx --emit=json -o interface.json && onnxc digits.onnx --check-interface interface.json -o digits.o && echo "the interface is the recorded one"
