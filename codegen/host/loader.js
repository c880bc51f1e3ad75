const CODES = ["OK", "NULL_POINTER", "BAD_DIM", "WORKSPACE_SIZE", "WORKSPACE_ALIGN", "TOO_SMALL", "TOO_LARGE", "NO_MEMORY",
  "CHECK_FAILED", "CANCELLED", "BAD_CPU", "BAD_WEIGHTS"];
const TOO_SMALL = 5, ATTEMPTS = 8, ALIGN = 64, PAGE = 65536;
const utf8 = new TextDecoder(), toUtf8 = new TextEncoder();
const aligned = (n) => Math.ceil(n / ALIGN) * ALIGN;
const product = (dims) => dims.reduce((n, d) => n * d, 1);

/** A run or a load that failed; `code` is the name of the status in onnxc.h without its prefix. */
export class ModelError extends Error {
  constructor(code, message) {
    super(message);
    this.name = "ModelError";
    this.code = code;
  }
}
const refuse = (message) => {
  throw new ModelError("BAD_INPUT", message);
};

// The arrays of an element type: packed elements and pairs (complex numbers) have another length than the tensor.
const lengthOf = (t, count) => (t.array === Array ? count : Math.ceil((count * t.bits) / (8 * t.array.BYTES_PER_ELEMENT)));
// Typed arrays keep their type across workers and frames by name only. null: another type, or numbers where bits are stored.
const elements = (t, data) => {
  const type = ArrayBuffer.isView(data) ? data[Symbol.toStringTag] : undefined, bits = { float16: "Float16Array", uint8: "Uint8ClampedArray" };
  if (type === t.array.name) return data;
  if (type && type === bits[t.dtype]) return new t.array(data.buffer, data.byteOffset, data.length);
  if (type || t.raw) return null;
  return t.bits === 64 && /int/.test(t.dtype) ? t.array.from(data, BigInt) : t.array.from(data);
};
const bytesOf = (t, count) => Math.ceil((count * t.bits) / 8);

class Model {
  #x; // the module's exports
  #block = 0; #room = 0; // memory of the runs
  #context = 0;
  #capacity; // of the outputs, as the last run needed them

  constructor(exports) {
    this.#x = exports;
    const d = exports[`${NAME}_descriptor`].value, at = this.#view(), u32 = (p) => at.getUint32(p, true);
    const textAt = (p) => this.#text(d + u32(p));
    const dims = (t) => Array.from({ length: u32(t + 16) }, (_, j) => {
      const p = d + u32(t + 20) + 16 * j, value = Number(at.getBigInt64(p, true));
      return value >= 0 ? value : textAt(p + 8);
    });
    const tensors = (p) => Array.from({ length: u32(d + p) }, (_, j) => {
      const t = d + u32(d + p + 4) + 72 * j;
      return { name: textAt(t), ...FORMATS[u32(t + 12)], dims: dims(t), firstDim: u32(t + 24), state: u32(t + 32), optional: u32(t + 52) > 0 };
    });
    this.name = textAt(d + 16);
    this.inputs = tensors(48);
    this.outputs = tensors(56);
    this.metadata = Object.fromEntries(Array.from({ length: u32(d + 72) }, (_, j) => {
      const p = d + u32(d + 76) + 8 * j;
      return [textAt(p), textAt(p + 4)];
    }));
    this.ndims = u32(d + 80);
    this.weights = textAt(d + 96);
    this.#capacity = this.outputs.map((t) => product(t.dims.map((n) => (typeof n === "number" ? n : 1))));
  }

  #view() {
    return new DataView(this.#x.memory.buffer);
  }

  #text(p) {
    const bytes = new Uint8Array(this.#x.memory.buffer, p);
    return utf8.decode(bytes.subarray(0, bytes.indexOf(0)));
  }

  // By the module's allocator. Without one, all memory above the data is the block of the runs.
  #allocate(bytes) {
    const { memory, malloc, __heap_base } = this.#x;
    if (malloc) {
      const p = malloc(bytes + ALIGN) >>> 0;
      if (!p) throw new ModelError("NO_MEMORY", `out of memory: ${bytes} bytes`);
      return p;
    }
    const p = aligned(__heap_base.value), missing = p + bytes - memory.buffer.byteLength;
    try {
      if (missing > 0) memory.grow(Math.ceil(missing / PAGE));
    } catch {
      throw new ModelError("NO_MEMORY", `out of memory: ${bytes} bytes`);
    }
    return p;
  }

  #reserve(bytes) {
    if (bytes > this.#room) {
      if (this.#block && this.#x.free) this.#x.free(this.#block);
      this.#block = 0, this.#room = 0;
      this.#block = this.#allocate(bytes);
      this.#room = bytes;
    }
    return aligned(this.#block);
  }

  /** Keeps a copy of the contents of the weights file. */
  open(weights) {
    const bytes = new Uint8Array(weights.buffer ?? weights, weights.byteOffset ?? 0, weights.byteLength), said = 512;
    const data = aligned(this.#allocate(bytes.length + ALIGN)), options = aligned(this.#allocate(said + 2 * ALIGN));
    new Uint8Array(this.#x.memory.buffer).set(bytes, data);
    new Uint32Array(this.#x.memory.buffer, options, 10).set([40, 0, data, bytes.length, 0, 0, 0, options + ALIGN, said, 0]);
    const code = this.#x[`${NAME}_open`](options, options + 40);
    if (code) throw new ModelError(CODES[code], this.#text(options + ALIGN));
    this.#context = this.#view().getUint32(options + 40, true);
  }

  // The elements as an array of the input's type, and the dims, of which a typed array alone leaves one open at most.
  #take(t, given, sizes) {
    let data = given?.data ?? given;
    if (given === undefined || given === null) refuse(`input '${t.name}' is missing`);
    if (data.length === undefined) refuse(`input '${t.name}' is neither an array nor { data, dims }`);
    data = elements(t, data) ?? refuse(`input '${t.name}' is a ${data[Symbol.toStringTag] ?? "plain array"}, must be a ${t.array.name}`);
    const shape = `[${t.dims.join(", ")}]`;
    let dims = given.dims && Array.from(given.dims, Number);
    if (!dims) {
      dims = t.dims.map((n) => (typeof n === "number" ? n : sizes[n] ?? -1));
      const open = dims.indexOf(-1), count = (data.length * 8 * (t.array.BYTES_PER_ELEMENT ?? 8)) / t.bits;
      if (open >= 0) {
        dims[open] = 1;
        dims[open] = dims.includes(-1) ? -1 : count / product(dims);
        if (!Number.isInteger(dims[open]) || dims[open] < 0) refuse(`input '${t.name}', ${shape}, needs dims: { data, dims }`);
      }
    }
    if (dims.length !== t.dims.length) refuse(`input '${t.name}' has ${dims.length} dims, must be ${shape}`);
    const length = lengthOf(t, product(dims));
    if (data.length !== length) refuse(`input '${t.name}' has ${data.length} elements, but [${dims.join(", ")}] needs ${length}`);
    t.dims.forEach((n, j) => typeof n === "string" && (sizes[n] ??= dims[j]));
    return { data, dims, bytes: bytesOf(t, product(dims)) };
  }

  #takeAll(inputs) {
    const sizes = {}, taken = [];
    for (const name of Object.keys(inputs))
      if (!this.inputs.some((t) => t.name === name))
        refuse(`there is no input '${name}'; the model has ${this.inputs.map((t) => `'${t.name}'`).join(", ")}`);
    const order = this.inputs.map((t, i) => i).sort((i, j) => !inputs[this.inputs[i].name]?.dims - !inputs[this.inputs[j].name]?.dims);
    for (const i of order) {
      const t = this.inputs[i], given = inputs[t.name];
      taken[i] = t.optional && (given === undefined || given === null) ? null : this.#take(t, given, sizes);
    }
    return taken;
  }

  #putStrings(p, strings, end) {
    const view = this.#view(), bytes = new Uint8Array(this.#x.memory.buffer);
    strings.forEach((s, j) => {
      const { written } = toUtf8.encodeInto(s, bytes.subarray(end));
      view.setUint32(p + 8 * j, end, true);
      view.setUint32(p + 8 * j + 4, written, true);
      end += written;
    });
  }

  #getStrings(p, count) {
    const view = this.#view(), buffer = this.#x.memory.buffer;
    const strings = Array.from({ length: count }, (_, j) =>
      utf8.decode(new Uint8Array(buffer, view.getUint32(p + 8 * j, true), view.getUint32(p + 8 * j + 4, true))));
    if (count) this.#x.free(view.getUint32(p, true));
    return strings;
  }

  #result(t, p, dims) {
    const count = product(dims);
    if (t.array === Array) return { data: this.#getStrings(p, count), dims };
    return { data: new t.array(this.#x.memory.buffer, p, lengthOf(t, count)).slice(), dims };
  }

  // One attempt: its status, and the results if it is 0. In memory: pointers, capacities, dims, tensors, workspace.
  #attempt(taken) {
    const { inputs, outputs } = this, n = inputs.length + outputs.length + 1, head = aligned(8 * (n + outputs.length + this.ndims + 1));
    const strings = (x, t) => (x && t.array === Array ? x.data.reduce((sum, s) => sum + 3 * s.length, 0) : 0);
    const dimsAt = (p) => new BigInt64Array(this.#x.memory.buffer, p, this.ndims);
    let p = this.#reserve(head);
    taken.forEach((x, i) => dimsAt(p).set((x ?? inputs[i]).dims.map(BigInt), inputs[i].firstDim));
    const workspace = Number(this.#x[`${NAME}_workspace_generic`](p)), places = [];
    let bytes = head;
    const place = (size) => (bytes = aligned((places.push(bytes), bytes + size)));
    taken.forEach((x, i) => place(x ? x.bytes + strings(x, inputs[i]) : 0));
    outputs.forEach((t, i) => place(bytesOf(t, this.#capacity[i])));
    place(Math.max(workspace, 0));
    const dims = dimsAt(p).slice();
    p = this.#reserve(bytes);
    const dimsPlace = p, capacityPlace = dimsPlace + 8 * this.ndims, pointers = capacityPlace + 8 * outputs.length, message = pointers + 4 * n;
    dimsAt(dimsPlace).set(dims);
    new BigInt64Array(this.#x.memory.buffer, capacityPlace, outputs.length).set(this.#capacity.map(BigInt));
    const at = new Uint32Array(this.#x.memory.buffer, pointers, n + 1);
    places.slice(0, -1).forEach((place, i) => (at[i] = i < taken.length && !taken[i] ? 0 : p + place));
    at[n - 1] = this.#context;
    at[n] = 0;
    taken.forEach((x, i) => {
      if (!x) return;
      if (inputs[i].array === Array) this.#putStrings(p + places[i], x.data, p + places[i] + x.bytes);
      else new inputs[i].array(this.#x.memory.buffer, p + places[i], x.data.length).set(x.data);
    });
    const code = this.#x[`${NAME}_run_generic`](pointers, dimsPlace, capacityPlace, p + places.at(-1), Math.max(workspace, 0), message);
    const found = dimsAt(dimsPlace), shapes = outputs.map((t) => Array.from(found.subarray(t.firstDim, t.firstDim + t.dims.length), Number));
    if (code === TOO_SMALL) this.#capacity = this.#capacity.map((c, i) => Math.max(c, product(shapes[i])));
    if (code) return { code, why: this.#text(this.#view().getUint32(message, true)) };
    return { code, results: outputs.map((t, i) => [t.name, this.#result(t, p + places[t.state ? t.state - 1 : inputs.length + i], shapes[i])]) };
  }

  /** Runs the model: an array or { data, dims } for each input by name; returns { data, dims } for each output. */
  run(inputs = {}) {
    const taken = this.#takeAll(inputs);
    let done = { code: TOO_SMALL };
    for (let i = 0; i < ATTEMPTS && done.code === TOO_SMALL; i++) done = this.#attempt(taken);
    if (done.code) throw new ModelError(CODES[done.code] ?? "FAILED", done.why);
    return Object.fromEntries(done.results);
  }
}

async function read(from) {
  if (typeof from !== "string" && !(from instanceof URL)) return from;
  const url = new URL(from, import.meta.url);
  if (url.protocol === "file:" && typeof process !== "undefined") return (await import("node:fs/promises")).readFile(url);
  const answer = await fetch(url);
  if (!answer.ok) throw new ModelError("BAD_WEIGHTS", `cannot read the weights '${url}': ${answer.status}`);
  return answer.arrayBuffer();
}

// A loop, as Uint8Array.from() with a function takes 40 times as long.
function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

/** The compiled module, which may be sent to workers: load({ module }). */
export const compile = async () => WebAssembly.compile(fromBase64(CODE));

/** Makes an instance with memory of its own. weights: contents or address of the weights file, if the model has one. */
export async function load({ module, weights } = {}) {
  module ??= await compile();
  // Parts of the C library ask a system for files, of which there are none (EBADF).
  const imports = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) (imports[from] ??= {})[name] = () => 8;
  const { exports } = await WebAssembly.instantiate(module, imports);
  exports._initialize?.();
  const model = new Model(exports);
  if (model.weights) model.open(await read(weights ?? model.weights));
  return model;
}
export default load;
