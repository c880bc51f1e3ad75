// Measures compiled models in Node.js. usage: node wasm.mjs PEAK SECONDS JOB...; a job is JSON with `path` of an ES module, `inputs` by name
// ({ dims, type, most }), and with `ort`, a folder of onnxruntime-web, `model` for it. Prints a line of JSON for each job.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [peakPath, seconds, ...jobs] = process.argv.slice(2);
const peak = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(peakPath))).exports;
const ROUNDS = 1 << 17, SUMS = 10;

function time(f) {
  const start = performance.now();
  f();
  return performance.now() - start;
}
// Operations a second: a multiplication and an addition are two.
const f32 = () => (ROUNDS * SUMS * 8) / time(() => peak.peak_f32(ROUNDS, 0.5)) / 1e6;
const i16 = () => (ROUNDS * SUMS * 16) / time(() => peak.peak_i16(ROUNDS, 3)) / 1e6;

function makeInput({ dims, type, most }) {
  const n = dims.reduce((a, b) => a * b, 1), arrays = { float: Float32Array, int64: BigInt64Array, int32: Int32Array, uint8: Uint8Array, int8: Int8Array };
  let state = 12345;
  const next = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  const number = type === "int64" ? (v) => BigInt(Math.floor(v)) : type === "float" ? Number : Math.floor;
  return { data: arrays[type].from({ length: n }, () => number(most * next())), dims };
}

async function openPeer(folder, model, inputs) {
  const ort = await import(pathToFileURL(`${folder}/dist/ort.node.min.mjs`));
  ort.env.wasm.numThreads = 1;
  const session = await ort.InferenceSession.create(model, { executionProviders: ["wasm"] });
  const feeds = Object.fromEntries(Object.entries(inputs).map(([k, v]) => [k, new ort.Tensor(v.data, v.dims)]));
  return () => session.run(feeds);
}

for (const job of jobs.map((text) => JSON.parse(text))) {
  const model = await (await import(pathToFileURL(job.path))).load(), inputs = Object.fromEntries(Object.entries(job.inputs).map(([k, v]) => [k, makeInput(v)]));
  const best = { ms: Infinity, f32: 0, i16: 0 }, end = performance.now() + 1000 * seconds;
  const peer = job.ort && (await openPeer(job.ort, job.model, inputs));
  for (let i = 0; i < 5 || performance.now() < end; i++) {
    best.f32 = Math.max(best.f32, f32());
    best.i16 = Math.max(best.i16, i16());
    best.ms = Math.min(best.ms, time(() => model.run(inputs)));
    if (!peer) continue;
    const start = performance.now();
    await peer();
    best.peer = Math.min(best.peer ?? Infinity, performance.now() - start);
  }
  console.log(JSON.stringify({ name: job.name, ...best }));
}
