//! The compiler in this process (libonnxc).
use crate::descriptor::Model;
use crate::session::c_string;
use crate::sys::compiler as c;
use crate::Error;
use std::ffi::CStr;
use std::os::raw::{c_char, c_void};
use std::ptr::{null, null_mut};

/// What to compile. Options are those of the command line.
#[derive(Clone, Debug, Default)]
pub struct Job<'a> {
    /// Path of the model; with `data`, its name in messages.
    pub model: Option<&'a str>,
    pub data: Option<&'a [u8]>,
    pub data_folder: Option<&'a str>,
    pub options: Vec<String>,
    /// Bytes; 0: no limit.
    pub memory_limit: usize,
}

impl<'a> Job<'a> {
    pub fn of_file(path: &'a str) -> Job<'a> {
        Job { model: Some(path), ..Job::default() }
    }
    pub fn of_memory(data: &'a [u8]) -> Job<'a> {
        Job { data: Some(data), ..Job::default() }
    }
    pub fn option(mut self, option: impl Into<String>) -> Job<'a> {
        self.options.push(option.into());
        self
    }
}

unsafe extern "C" fn add_message(user: *mut c_void, m: *const c::onnxc_message) {
    let errors = &mut *(user as *mut Vec<String>);
    let m = &*m;
    let text = |s: *const c_char| CStr::from_ptr(s).to_string_lossy().into_owned();
    if m.severity == c::ONNXC_ERROR && !m.full.is_null() {
        errors.push(text(m.full));
    }
}

fn with_job<R>(job: &Job, f: impl FnOnce(&c::onnxc_job) -> (i32, R)) -> Result<R, Error> {
    let mut errors: Vec<String> = Vec::new();
    let model = job.model.map(c_string).transpose()?;
    let folder = job.data_folder.map(c_string).transpose()?;
    let options = job.options.iter().map(|o| c_string(o)).collect::<Result<Vec<_>, _>>()?;
    let pointers: Vec<_> = options.iter().map(|o| o.as_ptr()).collect();
    let raw = c::onnxc_job {
        size: std::mem::size_of::<c::onnxc_job>(),
        model: model.as_ref().map_or(null(), |m| m.as_ptr()),
        data: job.data.map_or(null(), |d| d.as_ptr().cast()),
        data_size: job.data.map_or(0, |d| d.len()),
        data_folder: folder.as_ref().map_or(null(), |m| m.as_ptr()),
        options: pointers.as_ptr(),
        noptions: pointers.len() as i32,
        memory_limit: job.memory_limit,
        user: (&mut errors as *mut Vec<String>).cast(),
        message: Some(add_message),
        print: None,
        cancelled: None,
    };
    match f(&raw) {
        (0, r) => Ok(r),
        _ if errors.is_empty() => Err(Error::new("the compilation failed")),
        _ => Err(Error::new(errors.join("\n"))),
    }
}

/// Writes the outputs that the options ask for (`-o`, `--emit`, `--header` ...).
pub fn compile(job: &Job) -> Result<(), Error> {
    with_job(job, |raw| (unsafe { c::onnxc_compile(raw) }, ()))
}

/// Returns the main output.
pub fn compile_to_memory(job: &Job) -> Result<Vec<u8>, Error> {
    let (mut data, mut size) = (null_mut(), 0);
    with_job(job, |raw| (unsafe { c::onnxc_compile_to_memory(raw, &mut data, &mut size) }, ()))?;
    let bytes = if size > 0 { unsafe { std::slice::from_raw_parts(data as *const u8, size) }.to_vec() } else { Vec::new() };
    unsafe { c::onnxc_free(data) };
    Ok(bytes)
}

/// A model compiled into this process.
pub struct Loaded(*mut c::onnxc_loaded);
unsafe impl Send for Loaded {}
unsafe impl Sync for Loaded {}

/// Compiles for this machine's CPU unless the options say otherwise.
pub fn load(job: &Job) -> Result<Loaded, Error> {
    let mut loaded = null_mut();
    with_job(job, |raw| (unsafe { c::onnxc_load(raw, &mut loaded) }, ()))?;
    Ok(Loaded(loaded))
}

impl Loaded {
    pub fn model(&self) -> Result<Model<'_>, Error> {
        unsafe { Model::from_raw(c::onnxc_loaded_model(self.0)) }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        unsafe { c::onnxc_unload(self.0) }
    }
}

pub fn version() -> String {
    unsafe { CStr::from_ptr(c::onnxc_compiler_version()) }.to_string_lossy().into_owned()
}
