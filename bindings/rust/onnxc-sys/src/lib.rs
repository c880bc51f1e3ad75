//! Declarations of `onnxc.h`, and with the feature `compiler` of `onnxc_compiler.h`. The crate `onnxc` wraps them.
#![allow(non_camel_case_types)]
use std::os::raw::{c_char, c_int, c_void};

pub const ONNXC_INTERFACE: u32 = 2;

#[repr(C)]
pub struct onnxc_context {
    pub weights: *const c_void,
    pub weights_size: usize,
    pub mapped: c_int,
    pub device: c_int,
    pub gpu: *mut c_void,
}

#[repr(C)]
pub struct onnxc_options {
    pub size: usize,
    pub weights: *const c_char,
    pub data: *const c_void,
    pub data_size: usize,
    pub device: c_int,
    pub device_pointers: c_int,
    pub stream: *mut c_void,
    pub message: *mut c_char,
    pub message_size: usize,
    pub no_graphs: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct onnxc_string {
    pub data: *const c_char,
    pub size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct onnxc_value {
    pub kind: i32,
    pub dtype: i32,
    pub rank: i64,
    pub count: i64,
    pub dims: *const i64,
    pub data: *mut c_void,
}

pub type onnxc_run = unsafe extern "C" fn(*const *mut c_void, *mut i64, *const i64, *mut c_void, usize, *mut *const c_char) -> c_int;
pub type onnxc_workspace = unsafe extern "C" fn(*const i64) -> i64;
pub type onnxc_open = unsafe extern "C" fn(*const onnxc_options, *mut *mut onnxc_context) -> c_int;
pub type onnxc_close = unsafe extern "C" fn(*mut onnxc_context);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct onnxc_model {
    pub descriptor: *const c_void,
    pub run: Option<onnxc_run>,
    pub workspace: Option<onnxc_workspace>,
    pub open: Option<onnxc_open>,
    pub close: Option<onnxc_close>,
}

#[repr(C)]
pub struct onnxc_descriptor {
    pub magic: [u8; 8],
    pub interface_version: u32,
    pub bytes: u32,
    pub name: u32,
    pub graph_name: u32,
    pub doc: u32,
    pub producer: u32,
    pub version: u32,
    pub target: u32,
    pub model_hash: u32,
    pub options_hash: u32,
    pub ninputs: u32,
    pub inputs: u32,
    pub noutputs: u32,
    pub outputs: u32,
    pub nsymbols: u32,
    pub symbols: u32,
    pub nmetadata: u32,
    pub metadata: u32,
    pub ndims: u32,
    pub workspace_align: u32,
    pub workspace_bytes: i64,
    pub weights: u32,
    pub unused: u32,
}

#[repr(C)]
pub struct onnxc_tensor_info {
    pub name: u32,
    pub identifier: u32,
    pub doc: u32,
    pub dtype: i32,
    pub rank: u32,
    pub dims: u32,
    pub first_dim: u32,
    pub data_sized: u32,
    pub state: u32,
    pub zero_point: i32,
    pub scale: f32,
    pub kind: u32,
    pub type_: u32,
    pub has_default: u32,
    pub nlabels: u32,
    pub labels: u32,
    pub label_dtype: i32,
    pub room: u32,
}

#[repr(C)]
pub struct onnxc_dim_info {
    pub value: i64,
    pub text: u32,
    pub unused: u32,
}

#[repr(C)]
pub struct onnxc_threads {
    pub count: c_int,
    pub parallel_for: Option<unsafe extern "C" fn(*mut c_void, c_int, unsafe extern "C" fn(*mut c_void, c_int), *mut c_void)>,
    pub user: *mut c_void,
}

#[repr(C)]
pub struct onnxc_library {
    _private: [u8; 0],
}

extern "C" {
    pub fn onnxc_status_text(status: c_int) -> *const c_char;
    pub fn onnxc_strings_free(strings: *mut onnxc_string, count: i64);
    pub fn onnxc_value_free(value: *mut onnxc_value);
    pub fn onnxc_use_threads(threads: *const onnxc_threads) -> *const onnxc_threads;
    pub fn onnxc_default_threads() -> c_int;
    pub fn onnxc_library_open(path: *const c_char, name: *const c_char, message: *mut *const c_char) -> *mut onnxc_library;
    pub fn onnxc_library_model(library: *const onnxc_library) -> onnxc_model;
    pub fn onnxc_library_close(library: *mut onnxc_library);
}

#[cfg(feature = "compiler")]
pub mod compiler {
    use super::*;

    pub const ONNXC_COMPILED: c_int = 0;
    pub const ONNXC_WRONG_MODEL: c_int = 1;
    pub const ONNXC_NOT_SUPPORTED: c_int = 2;
    pub const ONNXC_COMPILER_DEFECT: c_int = 3;
    pub const ONNXC_STOPPED: c_int = 5;
    pub const ONNXC_REMARK: c_int = 0;
    pub const ONNXC_WARNING: c_int = 1;
    pub const ONNXC_ERROR: c_int = 2;

    #[repr(C)]
    pub struct onnxc_message {
        pub severity: c_int,
        pub result: c_int,
        pub full: *const c_char,
        pub text: *const c_char,
        pub hint: *const c_char,
        pub file: *const c_char,
        pub node: *const c_char,
        pub op: *const c_char,
        pub version: c_int,
    }

    #[repr(C)]
    pub struct onnxc_job {
        pub size: usize,
        pub model: *const c_char,
        pub data: *const c_void,
        pub data_size: usize,
        pub data_folder: *const c_char,
        pub options: *const *const c_char,
        pub noptions: c_int,
        pub memory_limit: usize,
        pub user: *mut c_void,
        pub message: Option<unsafe extern "C" fn(*mut c_void, *const onnxc_message)>,
        pub print: Option<unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char)>,
        pub cancelled: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    }

    #[repr(C)]
    pub struct onnxc_loaded {
        _private: [u8; 0],
    }

    extern "C" {
        pub fn onnxc_compile(job: *const onnxc_job) -> c_int;
        pub fn onnxc_compile_to_memory(job: *const onnxc_job, output: *mut *mut c_void, size: *mut usize) -> c_int;
        pub fn onnxc_free(output: *mut c_void);
        pub fn onnxc_load(job: *const onnxc_job, loaded: *mut *mut onnxc_loaded) -> c_int;
        pub fn onnxc_loaded_model(loaded: *const onnxc_loaded) -> onnxc_model;
        pub fn onnxc_unload(loaded: *mut onnxc_loaded);
        pub fn onnxc_compiler_version() -> *const c_char;
    }
}
