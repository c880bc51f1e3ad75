//! Finds an installation of onnxc: `ONNXC_PREFIX`, pkg-config, or the folder above the `onnxc` in PATH.
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn pkg_config() -> Option<PathBuf> {
    let tool = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let out = Command::new(tool).args(["--variable=libdir", "onnxc"]).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    (out.status.success() && !text.trim().is_empty()).then(|| PathBuf::from(text.trim()))
}

fn in_path() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let program = env::split_paths(&path).map(|p| p.join("onnxc")).find(|p| p.is_file())?.canonicalize().ok()?;
    Some(program.parent()?.parent()?.join("lib"))
}

// In an installed tree, and in the build folder of the sources.
fn has_runtime(folder: &Path) -> bool {
    folder.join("libonnxc-rt.a").is_file()
}

fn main() {
    for name in ["ONNXC_PREFIX", "PKG_CONFIG", "PKG_CONFIG_PATH", "PATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let target = env::var("TARGET").unwrap();
    let gnu = target.replace("-unknown-", "-").replace("armv7-", "arm-").replace("riscv64gc", "riscv64").replace("i686", "i386");
    let mut folders = Vec::new();
    let native = env::var("HOST").ok() == Some(target);
    if let Some(prefix) = env::var_os("ONNXC_PREFIX") {
        let prefix = PathBuf::from(prefix);
        folders.extend([prefix.join("lib/onnxc").join(&gnu), prefix.join("lib").join(&gnu)]);
        if native {
            folders.extend([prefix.join("lib"), prefix]);
        }
    } else {
        let found: Vec<PathBuf> = [pkg_config(), in_path()].into_iter().flatten().collect();
        for lib in &found {
            if native {
                folders.push(lib.clone());
            }
            folders.extend([lib.join("onnxc").join(&gnu), lib.join(&gnu)]);
        }
    }
    let folder = folders.iter().find(|f| has_runtime(f)).unwrap_or_else(|| {
        panic!("no libonnxc-rt.a for {gnu} in {folders:?}; set ONNXC_PREFIX to the folder where onnxc is installed")
    });
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=static=onnxc-rt");
    println!("cargo:rustc-link-lib=dylib=pthread");
    println!("cargo:rustc-link-lib=dylib=dl");
    if env::var_os("CARGO_FEATURE_COMPILER").is_some() {
        println!("cargo:rustc-link-lib=dylib=onnxc");
        println!("cargo:libdir={}", folder.display());
    }
}
