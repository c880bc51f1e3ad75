// ld.lld for the distribution: LLD's ELF linker, which links objects and archives of machine code. Code generators for LTO are left
// out, which would be most of the program.
#include "lld/Common/Driver.h"
#include "llvm/Passes/PassPlugin.h"
#include "llvm/Support/raw_ostream.h"
LLD_HAS_DRIVER(elf)

#define LLVM_TARGET(T)                                                                                                             \
    extern "C" void LLVMInitialize##T##TargetInfo() {}                                                                             \
    extern "C" void LLVMInitialize##T##Target() {}                                                                                 \
    extern "C" void LLVMInitialize##T##TargetMC() {}
#include "llvm/Config/Targets.def"
#define LLVM_ASM_PRINTER(T) extern "C" void LLVMInitialize##T##AsmPrinter() {}
#include "llvm/Config/AsmPrinters.def"
#define LLVM_ASM_PARSER(T) extern "C" void LLVMInitialize##T##AsmParser() {}
#include "llvm/Config/AsmParsers.def"
// An optional plugin, which Debian's archives of LLVM refer to but do not contain.
llvm::PassPluginLibraryInfo getPollyPluginInfo() {
    return {LLVM_PLUGIN_API_VERSION, "none", "", [](llvm::PassBuilder &) {}};
}

int main(int argc, char **argv) {
    llvm::SmallVector<const char *, 64> args(argv, argv + argc);
    args[0] = "ld.lld";
    return lld::lldMain(args, llvm::outs(), llvm::errs(), {{lld::Gnu, &lld::elf::link}}).retCode;
}
