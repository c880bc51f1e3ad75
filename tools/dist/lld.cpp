// LLD's linkers for ELF and WebAssembly as a function of libonnxc: the program ld.lld calls it, so that both share one copy of LLVM.
#include "lld/Common/Driver.h"
#include "llvm/Passes/PassPlugin.h"
#include "llvm/Support/raw_ostream.h"
LLD_HAS_DRIVER(elf)
LLD_HAS_DRIVER(wasm)

// An optional plugin, which Debian's archives of LLVM refer to but do not contain.
llvm::PassPluginLibraryInfo getPollyPluginInfo() {
    return {LLVM_PLUGIN_API_VERSION, "none", "", [](llvm::PassBuilder &) {}};
}

// In place of initialisers of targets that onnxc does not have.
extern "C" void onnxc_no_target() {}

extern "C" __attribute__((visibility("default"))) int onnxc_lld(int argc, char **argv) {
    llvm::SmallVector<const char *, 64> args(argv, argv + argc);
    args[0] = "ld.lld";
    return lld::lldMain(args, llvm::outs(), llvm::errs(), {{lld::Gnu, &lld::elf::link}, {lld::Wasm, &lld::wasm::link}}).retCode;
}
