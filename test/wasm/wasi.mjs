// Runs a WASI command: node wasi.mjs PROGRAM ARGUMENT...
import { readFileSync } from "node:fs";
import { argv, exit } from "node:process";

process.removeAllListeners("warning").on("warning", () => {}); // that WASI is experimental
const { WASI } = await import("node:wasi");
const wasi = new WASI({ version: "preview1", args: argv.slice(2), preopens: { "/": "/", ".": "." } });
const { instance } = await WebAssembly.instantiate(readFileSync(argv[2]), wasi.getImportObject());
exit(wasi.start(instance));
