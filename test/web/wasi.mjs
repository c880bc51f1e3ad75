// Runs a WASI command, which sees the whole file system under absolute names: node wasi.mjs PROGRAM ARGUMENT...
import { readFileSync } from "node:fs";
import { argv, exit } from "node:process";

process.removeAllListeners("warning").on("warning", () => {}); // that WASI is experimental
const { WASI } = await import("node:wasi");
const wasi = new WASI({ version: "preview1", args: argv.slice(2), preopens: { "/": "/" } });
const { instance } = await WebAssembly.instantiate(readFileSync(argv[2]), { wasi_snapshot_preview1: wasi.wasiImport });
exit(wasi.start(instance));
