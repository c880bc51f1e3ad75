//! Runs ONNX models that onnxc compiled.
//!
//! Models that a build script compiled (crate `onnxc-build`) have a typed interface, with a parameter for each input:
//!
//! ```ignore
//! onnxc::include_model!(digits);
//! let mut model = digits::Model::new()?;
//! let out = model.run(&image)?;
//! ```
//!
//! Other models are a [`Library`] or, with the feature `compiler`, compiled in this process ([`compiler::load`]), and run by a
//! [`Session`] with inputs and outputs by name.
#[cfg(feature = "compiler")]
pub mod compiler;
mod descriptor;
mod element;
mod session;
mod value;

pub use descriptor::{Model, TensorInfo};
pub use element::{Bf16, Bool, Complex, Element, F16, Packed};
pub use onnxc_sys as sys;
pub use session::{Library, OpenOptions, Session};
pub use value::Value;

use std::ffi::CStr;
use std::fmt;

/// A status of a run (`onnxc_status` of `onnxc.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub i32);

impl Status {
    pub const NULL_POINTER: Status = Status(1);
    pub const BAD_DIM: Status = Status(2);
    pub const WORKSPACE_SIZE: Status = Status(3);
    pub const WORKSPACE_ALIGN: Status = Status(4);
    pub const TOO_SMALL: Status = Status(5);
    pub const TOO_LARGE: Status = Status(6);
    pub const NO_MEMORY: Status = Status(7);
    pub const CHECK_FAILED: Status = Status(8);
    pub const CANCELLED: Status = Status(9);
    pub const BAD_CPU: Status = Status(10);
    pub const BAD_WEIGHTS: Status = Status(11);
    pub const NO_GPU: Status = Status(12);
    pub const GPU_FAILED: Status = Status(13);
}

/// Why something failed: a run, a compilation, or a wrong use of this crate.
#[derive(Clone, Debug)]
pub struct Error {
    status: Option<Status>,
    message: String,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error { status: None, message: message.into() }
    }
    pub(crate) fn of_status(status: i32, message: String) -> Error {
        let message = if message.is_empty() {
            unsafe { CStr::from_ptr(sys::onnxc_status_text(status)) }.to_string_lossy().into_owned()
        } else {
            message
        };
        Error { status: Some(Status(status)), message }
    }
    /// The status of a failed run; `None` for other errors.
    pub fn status(&self) -> Option<Status> {
        self.status
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for Error {}

/// A dense tensor in borrowed memory.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, T> {
    dims: &'a [i64],
    data: &'a [T],
}

impl<'a, T: Element> View<'a, T> {
    /// Fails unless there are as many elements as the sizes say.
    pub fn new(dims: &'a [i64], data: &'a [T]) -> Result<Self, Error> {
        element::check_count::<T>(dims, data.len())?;
        Ok(View { dims, data })
    }
    pub fn dims(&self) -> &'a [i64] {
        self.dims
    }
    pub fn elements(&self) -> &'a [T] {
        self.data
    }
}

impl<'a> View<'a, sys::onnxc_string> {
    /// The elements of a tensor of strings. Invalid UTF-8 is replaced.
    pub fn strings(&self) -> Vec<String> {
        self.data.iter().map(value::text_of).collect()
    }
}

impl<T> std::ops::Index<usize> for View<'_, T> {
    type Output = T;
    fn index(&self, i: usize) -> &T {
        &self.data[i]
    }
}

/// Declares the module NAME with the typed interface that the build script generated (`onnxc_build::Model`).
#[macro_export]
macro_rules! include_model {
    ($name:ident) => {
        #[allow(dead_code, clippy::all)]
        pub mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".rs"));
        }
    };
}

/// `extern "C" { ... }` of generated code. The keyword is of this crate's edition: from 2024 on it is `unsafe extern`, which
/// Rust before 1.82 refuses.
#[doc(hidden)]
#[macro_export]
macro_rules! extern_c {
    ($($declarations:tt)*) => {
        extern "C" { $($declarations)* }
    };
}

/// The number of CPUs that this process may use, by its affinity and the quota of its cgroup.
pub fn default_threads() -> usize {
    unsafe { sys::onnxc_default_threads() as usize }
}

/// Calls `f` with `count` threads for the models that it runs.
pub fn with_threads<R>(count: usize, f: impl FnOnce() -> R) -> R {
    struct Restore(*const sys::onnxc_threads);
    impl Drop for Restore {
        fn drop(&mut self) {
            unsafe { sys::onnxc_use_threads(self.0) };
        }
    }
    let threads = sys::onnxc_threads { count: count as _, parallel_for: None, user: std::ptr::null_mut() };
    let _restore = Restore(unsafe { sys::onnxc_use_threads(&threads) });
    f()
}
