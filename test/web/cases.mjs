// Runs cases in ONNX's layout with the ES modules that onnxc made of their models, and prints a line of JSON for each: its
// folder, and what is wrong (null: nothing). usage: node cases.mjs LIST, with lines "FOLDER MODULE"
import { readdirSync, readFileSync, existsSync } from "node:fs";
import { pathToFileURL } from "node:url";

// ---------------------------------------------------------------- TensorProto
function* fields(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let at = 0;
  const varint = () => {
    let v = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const b = bytes[at++];
      v |= BigInt(b & 127) << shift;
      if (b < 128) return BigInt.asIntN(64, v);
    }
  };
  while (at < bytes.length) {
    const key = Number(varint()), field = key >> 3;
    if ((key & 7) === 0) yield [field, varint()];
    else if ((key & 7) === 1) yield [field, view.getFloat64((at += 8) - 8, true)];
    else if ((key & 7) === 5) yield [field, view.getFloat32((at += 4) - 4, true)];
    else {
      const n = Number(varint());
      yield [field, bytes.subarray(at, (at += n))];
    }
  }
}

const packed = (bytes, array) => Array.from(new array(Uint8Array.from(bytes).buffer));
const varints = (bytes) => {
  const all = [];
  for (let at = 0, shift = 0n, v = 0n; at < bytes.length; at++) {
    v |= BigInt(bytes[at] & 127) << shift;
    shift += 7n;
    if (bytes[at] < 128) all.push(BigInt.asIntN(64, v)), (v = 0n), (shift = 0n);
  }
  return all;
};

function readTensor(path, t) {
  const dims = [], numbers = [], strings = [];
  let raw = null;
  for (const [field, v] of fields(readFileSync(path))) {
    if (field === 1) dims.push(...(typeof v === "bigint" ? [v] : varints(v)).map(Number));
    else if (field === 4) numbers.push(...(typeof v === "number" ? [v] : packed(v, Float32Array)));
    else if (field === 10) numbers.push(...(typeof v === "number" ? [v] : packed(v, Float64Array)));
    else if (field === 5 || field === 7 || field === 11) numbers.push(...(typeof v === "bigint" ? [v] : varints(v)));
    else if (field === 6) strings.push(new TextDecoder().decode(v));
    else if (field === 9) raw = Uint8Array.from(v); // a Buffer's slice is no copy
  }
  if (t.array === Array) return { data: strings, dims };
  if (raw) return { data: new t.array(raw.buffer, 0, raw.length / t.array.BYTES_PER_ELEMENT), dims };
  const big = t.array === BigInt64Array || t.array === BigUint64Array;
  return { data: t.array.from(numbers, big ? BigInt : Number), dims };
}

// ---------------------------------------------------------------- comparing
function half(bits, exponentBits, fractionBits) {
  const bias = 2 ** (exponentBits - 1) - 1, sign = bits >> (exponentBits + fractionBits) ? -1 : 1;
  const e = (bits >> fractionBits) & (2 ** exponentBits - 1), f = bits & (2 ** fractionBits - 1);
  if (e === 2 ** exponentBits - 1) return f ? NaN : sign * Infinity;
  return sign * (e ? 1 + f / 2 ** fractionBits : f / 2 ** (fractionBits - 1)) * 2 ** (e - bias);
}
const NUMBERS = { float16: (b) => half(b, 5, 10), bfloat16: (b) => half(b, 8, 7) };
const LEAST = { float16: 2 ** -9, bfloat16: 2 ** -6 };

// Of packed elements those that there are: the rest of the last byte means nothing.
function unpacked(t, { data, dims }) {
  if (!(t.bits < 8)) return data;
  return Array.from({ length: dims.reduce((a, b) => a * b, 1) }, (_, i) => (data[(i * t.bits) >> 3] >> ((i * t.bits) & 7)) & ((1 << t.bits) - 1));
}

function difference(t, one, other, [rtol, atol]) {
  const [got, want] = [one, other].map((x) => ({ dims: x.dims, data: unpacked(t, x) }));
  if (got.dims.join() !== want.dims.join()) return `[${got.dims}], not [${want.dims}]`;
  if (got.data.length !== want.data.length) return `${got.data.length} elements, not ${want.data.length}`;
  const exact = !/float|double|complex/.test(t.dtype) || /float[84]/.test(t.dtype), number = NUMBERS[t.dtype] ?? ((v) => v);
  rtol = Math.max(rtol, LEAST[t.dtype] ?? 0);
  for (let i = 0; i < want.data.length; i++) {
    const a = number(got.data[i]), b = number(want.data[i]);
    if (a === b || (Number.isNaN(a) && Number.isNaN(b))) continue;
    if (exact || !(Math.abs(a - b) <= atol + rtol * Math.abs(b))) return `element ${i} is ${a}, not ${b}`;
  }
  return null;
}

async function check(folder, path) {
  const model = await (await import(pathToFileURL(path))).load();
  const tolerance = existsSync(`${folder}/tolerance`) ? readFileSync(`${folder}/tolerance`, "utf8").trim().split(" ").map(Number) : [1e-3, 1e-5];
  for (const set of readdirSync(folder).filter((name) => name.startsWith("test_data_set_"))) {
    const inputs = {};
    model.inputs.forEach((t, j) => {
      const file = `${folder}/${set}/input_${j}.pb`;
      if (existsSync(file)) inputs[t.name] = readTensor(file, t);
    });
    const results = model.run(inputs);
    for (const [j, t] of model.outputs.entries()) {
      const wrong = difference(t, results[t.name], readTensor(`${folder}/${set}/output_${j}.pb`, t), tolerance);
      if (wrong) return `${set}: '${t.name}': ${wrong}`;
    }
  }
  return null;
}

for (const line of readFileSync(process.argv[2], "utf8").trim().split("\n")) {
  const [folder, path] = line.split(" ");
  let wrong;
  try {
    wrong = await check(folder, path);
  } catch (e) {
    wrong = String(e.stack ?? e);
  }
  console.log(JSON.stringify([folder, wrong]));
}
