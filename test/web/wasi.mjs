// Runs a WASI command, which sees the whole file system under absolute names: node wasi.mjs PROGRAM ARGUMENT...
import { readFileSync } from "node:fs";
import { argv, exit } from "node:process";

process.removeAllListeners("warning").on("warning", () => {}); // that WASI is experimental
const { WASI } = await import("node:wasi");
const wasi = new WASI({ version: "preview1", args: argv.slice(2), preopens: { "/": "/" } });
// Node.js 20 crashes at times if a function of its WASI that WebAssembly calls directly collects garbage, as large outputs make it do.
const imports = {};
for (const name in wasi.wasiImport) imports[name] = (...given) => wasi.wasiImport[name](...given);
const { instance } = await WebAssembly.instantiate(readFileSync(argv[2]), { wasi_snapshot_preview1: imports });
exit(wasi.start(instance));
