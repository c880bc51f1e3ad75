#!/bin/sh
# A program for a microcontroller without an operating system: how much flash and RAM the model takes, and its answer on an emulated board.
# in the environment: PREFIX, the installed onnxc; MODELS, a folder with digits.onnx; SOURCES, onnxc's repository (start-up code and linker script)
set -eu
flags="-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16"
"$PREFIX/bin/onnxc" "$MODELS/digits.onnx" --target=thumbv7em-none-eabihf $flags -o digits.o
echo "flash: $(arm-none-eabi-size digits.o | awk 'NR == 2 { print $1 + $2 }') bytes of code and weights"
echo "RAM: $(sed -n 's/^#define DIGITS_WORKSPACE_BYTES //p' digits.h) bytes of workspace"
[ -n "$(arm-none-eabi-nm -u digits.o)" ] || echo "undefined symbols: none"
board=$SOURCES/samples/digits/cortex-m4
arm-none-eabi-gcc $flags -Os -I. -I"$SOURCES/samples/digits" "$SOURCES/samples/digits/main.c" "$board/start.c" digits.o -lm -o digits.elf \
    -nostartfiles --specs=nano.specs --specs=rdimon.specs -T "$board/mps2-an386.ld" -Wl,--gc-sections 2>link.log || { cat link.log; exit 1; }
qemu-system-arm -M mps2-an386 -nographic -monitor none -serial none -semihosting-config enable=on,target=native -kernel digits.elf | grep right
