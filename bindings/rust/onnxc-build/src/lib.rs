//! Compiles ONNX models in build scripts, and generates a typed interface for each.
//!
//! ```no_run
//! // build.rs
//! fn main() {
//!     onnxc_build::Model::new("models/digits.onnx").option("-O3").compile();
//! }
//! ```
//!
//! The program includes it with `onnxc::include_model!(digits)`. Cargo compiles the model again when it, its external data or the
//! options change. The compiler is `ONNXC`, else `bin/onnxc` below `ONNXC_PREFIX`, else `onnxc` in PATH.
mod generate;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A model to compile.
pub struct Model {
    path: PathBuf,
    name: String,
    options: Vec<String>,
}

// As onnxc itself makes a C identifier of a file's name.
fn identifier(path: &Path) -> String {
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let mut name: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name.insert_str(0, "m_");
    }
    name
}

fn onnxc() -> PathBuf {
    for name in ["ONNXC", "ONNXC_PREFIX", "PATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    if let Some(program) = env::var_os("ONNXC") {
        return program.into();
    }
    let below = env::var_os("ONNXC_PREFIX").map(PathBuf::from);
    let found = below.iter().flat_map(|p| [p.join("bin/onnxc"), p.join("onnxc")]).find(|p| p.is_file());
    found.unwrap_or_else(|| "onnxc".into())
}

// Rust's names of targets where they are not LLVM's.
fn triple(target: &str) -> String {
    match target.split_once('-') {
        Some(("riscv64gc", rest)) => format!("riscv64-{rest}"),
        Some((arch, rest)) if arch.starts_with("riscv32") => format!("riscv32-{rest}"),
        Some((arch, rest)) if arch.starts_with("riscv64") => format!("riscv64-{rest}"),
        _ => target.into(),
    }
}

fn prerequisites(depfile: &str) -> Vec<String> {
    let text = depfile.replace("\\\n", " ");
    let list = match text.split_once(": ") {
        Some((_, list)) => list,
        None => return Vec::new(),
    };
    let mut all = vec![String::new()];
    let mut chars = list.lines().next().unwrap_or("").chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek().map_or(false, |n| " #\\".contains(*n)) => all.last_mut().unwrap().push(chars.next().unwrap()),
            '$' if chars.peek() == Some(&'$') => all.last_mut().unwrap().push(chars.next().unwrap()),
            ' ' => all.push(String::new()),
            _ => all.last_mut().unwrap().push(c),
        }
    }
    all.retain(|p| !p.is_empty());
    all
}

impl Model {
    /// A model by its path, relative to the package's folder.
    pub fn new(path: impl AsRef<Path>) -> Model {
        let path = path.as_ref().to_path_buf();
        Model { name: identifier(&path), path, options: Vec::new() }
    }
    /// The name of the module and prefix of its symbols; default: from the name of the file.
    pub fn name(mut self, name: &str) -> Model {
        self.name = name.into();
        self
    }
    /// An option of onnxc's command line.
    pub fn option(mut self, option: impl Into<String>) -> Model {
        self.options.push(option.into());
        self
    }
    pub fn options<S: Into<String>>(mut self, options: impl IntoIterator<Item = S>) -> Model {
        self.options.extend(options.into_iter().map(Into::into));
        self
    }
    /// Compiles the model for Cargo's target into `OUT_DIR`, links it, and generates the module. Panics with onnxc's messages if that
    /// fails, as build scripts do.
    pub fn compile(self) {
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("OUT_DIR: compile() is for build scripts"));
        let target = env::var("TARGET").expect("TARGET");
        let (object, header) = (out.join(format!("{}.o", self.name)), out.join(format!("{}.h", self.name)));
        let depfile = out.join(format!("{}.d", self.name));
        let mut command = Command::new(onnxc());
        command.arg(&self.path).args(["--name", &self.name]);
        if env::var("HOST").ok().as_deref() != Some(&target) {
            command.args(["--target", &triple(&target)]);
        }
        command.args(&self.options).arg("-o").arg(&object).arg("--header").arg(&header).arg("-MF").arg(&depfile);
        println!("cargo:rerun-if-changed={}", self.path.display());
        let ran = command.output().unwrap_or_else(|e| panic!("cannot run {command:?}: {e}; ONNXC names the compiler"));
        if !ran.status.success() {
            panic!("{command:?}\n{}", String::from_utf8_lossy(&ran.stderr));
        }
        for line in String::from_utf8_lossy(&ran.stderr).lines() {
            println!("cargo:warning={line}");
        }
        for path in prerequisites(&std::fs::read_to_string(&depfile).unwrap_or_default()) {
            println!("cargo:rerun-if-changed={path}");
        }
        let code = generate::module(&self.name, &std::fs::read_to_string(&header).expect("the header"))
            .unwrap_or_else(|why| panic!("{}: {why}", self.path.display()));
        std::fs::write(out.join(format!("{}.rs", self.name)), code).expect("writing to OUT_DIR");
        // Archives of onnxc contain parts of the runtime, too, and rustc may link all members of each.
        write_archive(&out.join(format!("lib{}_onnx.a", self.name)), &object);
        println!("cargo:rustc-link-search=native={}", out.display());
        println!("cargo:rustc-link-lib=static={}_onnx", self.name);
    }
}

// An archive with one member, and an index of its symbols.
fn write_archive(archive: &Path, object: &Path) {
    let content = std::fs::read(object).expect("the object");
    let symbols = exported(&content);
    let names: Vec<u8> = symbols.iter().flat_map(|s| s.bytes().chain([0])).collect();
    let index_size = 4 + 4 * symbols.len() + names.len();
    let even = |n: usize| n + n % 2;
    let at = 8 + 60 + even(index_size);
    let head = |name: &str, size: usize| format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, "100644");
    let mut bytes = b"!<arch>\n".to_vec();
    bytes.extend(head("/", index_size).bytes());
    bytes.extend((symbols.len() as u32).to_be_bytes());
    for _ in &symbols {
        bytes.extend((at as u32).to_be_bytes());
    }
    bytes.extend(names);
    bytes.resize(at, 0);
    bytes.extend(head("model.o/", content.len()).bytes());
    bytes.extend(&content);
    bytes.resize(even(bytes.len()), 0);
    std::fs::write(archive, bytes).expect("writing to OUT_DIR");
}

// The names that an ELF object (little-endian, 32 or 64 bits) defines for others.
fn exported(elf: &[u8]) -> Vec<String> {
    let wide = elf[4] == 2;
    let number = |at: usize, n: usize| elf[at..at + n].iter().rev().fold(0usize, |v, &b| v << 8 | b as usize);
    let word = if wide { 8 } else { 4 };
    let pick = |a: usize, b: usize| if wide { a } else { b };
    let table = number(pick(0x28, 0x20), word);
    let (size, count) = (number(pick(0x3A, 0x2E), 2), number(pick(0x3C, 0x30), 2));
    let start = |i: usize| number(table + i * size + pick(0x18, 0x10), word);
    let found = (0..count).find(|&i| number(table + i * size + 4, 4) == 2); // the symbol table
    let s = match found {
        Some(i) => table + i * size,
        None => return Vec::new(),
    };
    let (at, bytes) = (number(s + pick(0x18, 0x10), word), number(s + pick(0x20, 0x14), word));
    let strings = start(number(s + pick(0x28, 0x18), 4));
    (at..at + bytes)
        .step_by(pick(24, 16))
        .filter(|&s| elf[s + pick(4, 12)] >> 4 == 1 && number(s + pick(6, 14), 2) != 0)
        .map(|s| elf[strings + number(s, 4)..].iter().take_while(|&&b| b != 0).map(|&b| b as char).collect())
        .collect()
}
