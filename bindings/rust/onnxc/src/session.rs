//! Libraries, and sessions that run a model.
use crate::descriptor::{Model, TensorInfo};
use crate::element::{bytes_of, count_of, Element};
use crate::value::Value;
use crate::{sys, Error, View};
use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::os::raw::{c_char, c_void};
use std::path::Path;
use std::ptr::null_mut;

/// A shared library compiled by onnxc (`-o NAME.so`).
pub struct Library {
    raw: *mut sys::onnxc_library,
}
unsafe impl Send for Library {}
unsafe impl Sync for Library {}

fn text(message: *const c_char) -> String {
    if message.is_null() {
        String::new()
    } else {
        unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
    }
}

pub(crate) fn c_string(s: &str) -> Result<CString, Error> {
    CString::new(s).map_err(|_| Error::new(format!("'{s}' contains a NUL")))
}

impl Library {
    /// Opens a library with one model.
    ///
    /// # Safety
    /// Loading a library runs its code: it must be one that may be trusted like a program.
    pub unsafe fn open(path: impl AsRef<Path>) -> Result<Library, Error> {
        Library::open_named(path, None)
    }
    /// Opens one of several models.
    ///
    /// # Safety
    /// As for [`Library::open`].
    pub unsafe fn open_named(path: impl AsRef<Path>, name: Option<&str>) -> Result<Library, Error> {
        let shown = path.as_ref().to_string_lossy();
        // dlopen searches names without a slash elsewhere
        let path = c_string(&if shown.contains('/') { shown.to_string() } else { format!("./{shown}") })?;
        let name = name.map(c_string).transpose()?;
        let mut message = std::ptr::null();
        let raw = sys::onnxc_library_open(path.as_ptr(), name.as_ref().map_or(std::ptr::null(), |n| n.as_ptr()), &mut message);
        if raw.is_null() {
            return Err(Error::new(text(message)));
        }
        Ok(Library { raw })
    }
    pub fn model(&self) -> Result<Model<'_>, Error> {
        unsafe { Model::from_raw(sys::onnxc_library_model(self.raw)) }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        unsafe { sys::onnxc_library_close(self.raw) }
    }
}

/// Where a model finds its weights and GPU. `device` -1: the CPU.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    pub weights: Option<String>,
    pub device: i32,
    pub no_graphs: bool,
}

// Aligned memory.
struct Memory {
    data: *mut u8,
    layout: Layout,
}

impl Memory {
    fn new(size: usize, align: usize) -> Memory {
        let layout = Layout::from_size_align(size.max(1), align.max(1).next_power_of_two()).expect("the size of a tensor");
        let data = unsafe { alloc_zeroed(layout) };
        if data.is_null() {
            handle_alloc_error(layout);
        }
        Memory { data, layout }
    }
    fn clear(&mut self) {
        unsafe { std::ptr::write_bytes(self.data, 0, self.layout.size()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        unsafe { dealloc(self.data, self.layout) }
    }
}

/// Runs a model: inputs by index or name, outputs that live until the next run. One session per thread.
pub struct Session<'m> {
    model: Model<'m>,
    context: *mut sys::onnxc_context,
    outputs: Vec<Memory>,
    capacity: Vec<i64>,
    dims: Vec<i64>,
    memory: Memory,
    ran: bool,
}
unsafe impl Send for Session<'_> {}

/// The inputs of one run, borrowed until it ends.
pub struct Run<'s, 'm, 'i> {
    session: &'s mut Session<'m>,
    data: Vec<*mut c_void>,
    strings: Vec<Vec<sys::onnxc_string>>,
    set: Vec<bool>,
    inputs: PhantomData<&'i ()>,
}

impl<'m> Session<'m> {
    pub fn new(model: Model<'m>) -> Result<Session<'m>, Error> {
        Session::with_options(model, &OpenOptions::default())
    }
    pub fn with_options(model: Model<'m>, options: &OpenOptions) -> Result<Session<'m>, Error> {
        let mut context = null_mut();
        if let Some(open) = model.raw().open {
            let weights = options.weights.as_deref().map(c_string).transpose()?;
            let mut message = [0u8; 512];
            let raw = sys::onnxc_options {
                size: std::mem::size_of::<sys::onnxc_options>(),
                weights: weights.as_ref().map_or(std::ptr::null(), |w| w.as_ptr()),
                data: std::ptr::null(),
                data_size: 0,
                device: options.device,
                device_pointers: 0,
                stream: null_mut(),
                message: message.as_mut_ptr().cast(),
                message_size: message.len(),
                no_graphs: options.no_graphs as _,
            };
            let status = unsafe { open(&raw, &mut context) };
            if status != 0 {
                return Err(Error::of_status(status, text(message.as_ptr().cast())));
            }
        }
        let d = model.descriptor();
        let mut session = Session {
            model,
            context,
            outputs: Vec::new(),
            capacity: Vec::new(),
            dims: vec![0; d.ndims as usize + 1],
            memory: Memory::new(0, d.workspace_align as usize),
            ran: false,
        };
        for t in model.outputs() {
            let count = if t.is_value() { 1 } else { count_of(&t.dims()).unwrap_or(0) };
            session.outputs.push(output_memory(&t, count));
            session.capacity.push(count as i64);
        }
        Ok(session)
    }
    pub fn model(&self) -> Model<'m> {
        self.model
    }
    /// Begins a run.
    pub fn start<'s, 'i>(&'s mut self) -> Run<'s, 'm, 'i> {
        self.free_values();
        let n = self.model.inputs().len();
        Run { data: vec![null_mut(); n], strings: Vec::new(), set: vec![false; n], session: self, inputs: PhantomData }
    }
    /// An output of the last run. Outputs that are states are the memory of their inputs.
    pub fn output<T: Element>(&self, i: usize) -> Result<View<'_, T>, Error> {
        let t = self.info(i)?;
        if t.is_value() || !T::is(t.dtype()) || t.raw.state != 0 {
            let what = if t.raw.state != 0 { "a state: see its input" } else { t.type_text() };
            return Err(Error::new(format!("output '{}' is {what}", t.name())));
        }
        let dims = &self.dims[t.raw.first_dim as usize..][..t.raw.rank as usize];
        let bytes = bytes_of(t.dtype(), count_of(dims).unwrap_or(0));
        let data = unsafe { std::slice::from_raw_parts(self.outputs[i].data as *const T, bytes / std::mem::size_of::<T>()) };
        Ok(View { dims, data })
    }
    pub fn output_named<T: Element>(&self, name: &str) -> Result<View<'_, T>, Error> {
        self.output(self.place(name)?)
    }
    /// A copy of an output that is a sequence, optional or map, or a tensor of any rank.
    pub fn output_value(&self, i: usize) -> Result<Value, Error> {
        let t = self.info(i)?;
        if !t.is_value() {
            return Err(Error::new(format!("output '{}' is {}", t.name(), t.type_text())));
        }
        Ok(unsafe { Value::copy(&*(self.outputs[i].data as *const sys::onnxc_value)) })
    }
    fn place(&self, name: &str) -> Result<usize, Error> {
        self.model.outputs().position(|t| t.name() == name).ok_or_else(|| Error::new(format!("the model has no output '{name}'")))
    }
    fn info(&self, i: usize) -> Result<TensorInfo<'m>, Error> {
        if !self.ran {
            return Err(Error::new("there was no successful run yet"));
        }
        self.model.outputs().nth(i).ok_or_else(|| Error::new(format!("the model has no output {i}")))
    }
    fn free_values(&mut self) {
        for (i, t) in self.model.outputs().enumerate() {
            let data = self.outputs[i].data;
            if t.is_value() {
                unsafe { sys::onnxc_value_free(data.cast()) };
            } else if t.dtype() == sys::onnxc_string::DTYPE && self.capacity[i] > 0 {
                unsafe { sys::onnxc_strings_free(data.cast(), 1) };
            } else {
                continue;
            }
            self.outputs[i].clear();
        }
        self.ran = false;
    }
    fn grow_outputs(&mut self) -> Result<(), Error> {
        self.free_values();
        for (i, t) in self.model.outputs().enumerate().filter(|(_, t)| !t.is_value()) {
            let dims = &self.dims[t.raw.first_dim as usize..][..t.raw.rank as usize];
            let needed = count_of(dims).ok_or_else(|| Error::new(format!("output '{}' would have the shape {dims:?}", t.name())))?;
            if needed as i64 > self.capacity[i] {
                self.outputs[i] = output_memory(&t, needed);
                self.capacity[i] = needed as i64;
            }
        }
        Ok(())
    }
}

fn output_memory(t: &TensorInfo, count: usize) -> Memory {
    Memory::new(if t.is_value() { std::mem::size_of::<sys::onnxc_value>() } else { bytes_of(t.dtype(), count) }, 64)
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.free_values();
        if let Some(close) = self.model.raw().close {
            unsafe { close(self.context) }
        }
    }
}

impl<'s, 'm, 'i> Run<'s, 'm, 'i> {
    fn place(&mut self, i: usize, dtype_fits: fn(i32) -> bool, dims: &[i64]) -> Result<TensorInfo<'m>, Error> {
        let t = self.session.model.inputs().nth(i).ok_or_else(|| Error::new(format!("the model has no input {i}")))?;
        let what = || format!("input '{}' ({})", t.name(), t.type_text());
        if t.is_value() {
            return Err(Error::new(format!("{}: only tensors are supported as inputs", what())));
        }
        if !dtype_fits(t.dtype()) {
            return Err(Error::new(format!("{} has another element type", what())));
        }
        if dims.len() != t.raw.rank as usize {
            return Err(Error::new(format!("{}: a tensor of shape {dims:?} has another rank", what())));
        }
        self.session.dims[t.raw.first_dim as usize..][..dims.len()].copy_from_slice(dims);
        self.set[i] = true;
        Ok(t)
    }
    fn find(&self, name: &str) -> Result<usize, Error> {
        self.session.model.inputs().position(|t| t.name() == name).ok_or_else(|| Error::new(format!("the model has no input '{name}'")))
    }
    pub fn input<T: Element>(mut self, i: usize, view: View<'i, T>) -> Result<Self, Error> {
        let t = self.place(i, T::is, view.dims)?;
        if self.session.model.outputs().any(|o| o.raw.state as usize == i + 1) {
            return Err(Error::new(format!("input '{}' is a state, which is written to: use `state`", t.name())));
        }
        check_bytes(&t, view.dims, std::mem::size_of_val(view.data))?;
        self.data[i] = view.data.as_ptr() as *mut c_void;
        Ok(self)
    }
    pub fn input_named<T: Element>(self, name: &str, view: View<'i, T>) -> Result<Self, Error> {
        let i = self.find(name)?;
        self.input(i, view)
    }
    /// Memory of a state (`--state`), which the run updates. A state that grows needs room for its largest size.
    pub fn state<T: Element>(mut self, i: usize, dims: &[i64], data: &'i mut [T]) -> Result<Self, Error> {
        let t = self.place(i, T::is, dims)?;
        let mut room = dims.to_vec();
        if let Some(grown) = self.session.model.outputs().find(|o| o.raw.state as usize == i + 1 && o.raw.room > 0) {
            let axis = t.dim_texts().iter().zip(grown.dim_texts()).position(|(before, after)| *before != after);
            room[axis.expect("the axis along which it grows")] = grown.raw.room as i64;
        }
        check_bytes_least(&t, &room, std::mem::size_of_val(data))?;
        self.data[i] = data.as_mut_ptr().cast();
        Ok(self)
    }
    pub fn state_named<T: Element>(self, name: &str, dims: &[i64], data: &'i mut [T]) -> Result<Self, Error> {
        let i = self.find(name)?;
        self.state(i, dims, data)
    }
    pub fn strings(mut self, i: usize, dims: &[i64], texts: &'i [&'i str]) -> Result<Self, Error> {
        let t = self.place(i, sys::onnxc_string::is, dims)?;
        let raw: Vec<_> = texts.iter().map(|s| sys::onnxc_string { data: s.as_ptr().cast(), size: s.len() }).collect();
        check_bytes(&t, dims, std::mem::size_of_val(&raw[..]))?;
        self.data[i] = raw.as_ptr() as *mut c_void;
        self.strings.push(raw);
        Ok(self)
    }
    pub fn strings_named(self, name: &str, dims: &[i64], texts: &'i [&'i str]) -> Result<Self, Error> {
        let i = self.find(name)?;
        self.strings(i, dims, texts)
    }
    /// Runs the model; returns the session with its outputs.
    pub fn finish(self) -> Result<&'s Session<'m>, Error> {
        for (i, t) in self.session.model.inputs().enumerate() {
            if !self.set[i] && t.has_default() {
                let dims = t.dims();
                self.session.dims[t.raw.first_dim as usize..][..dims.len()].copy_from_slice(&dims);
            } else if !self.set[i] {
                return Err(Error::new(format!("input '{}' is missing", t.name())));
            }
        }
        let s = self.session;
        let (run, workspace) = (s.model.raw().run.unwrap(), s.model.raw().workspace.unwrap());
        let bytes = unsafe { workspace(s.dims.as_ptr()) }.max(0) as usize;
        if bytes > s.memory.layout.size() {
            s.memory = Memory::new(bytes, s.memory.layout.align());
        }
        for _ in 0..s.outputs.len() + 3 {
            let mut data = self.data.clone();
            data.extend(s.outputs.iter().map(|o| o.data.cast::<c_void>()));
            if !s.context.is_null() {
                data.push(s.context.cast());
            }
            data.push(null_mut()); // of a hook
            let mut message = std::ptr::null();
            let memory = s.memory.data.cast();
            let status = unsafe { run(data.as_ptr(), s.dims.as_mut_ptr(), s.capacity.as_ptr(), memory, bytes, &mut message) };
            match status {
                0 => {
                    s.ran = true;
                    return Ok(s);
                }
                5 => s.grow_outputs()?,
                _ => return Err(Error::of_status(status, text(message))),
            }
        }
        Err(Error::of_status(5, String::new()))
    }
}

fn bytes_needed(t: &TensorInfo, dims: &[i64]) -> Result<usize, Error> {
    let count = count_of(dims).ok_or_else(|| Error::new(format!("{dims:?} is not the shape of a tensor")))?;
    Ok(bytes_of(t.dtype(), count))
}
fn check_bytes(t: &TensorInfo, dims: &[i64], given: usize) -> Result<(), Error> {
    let needed = bytes_needed(t, dims)?;
    if given == needed {
        return Ok(());
    }
    Err(Error::new(format!("input '{}': a tensor of shape {dims:?} has {needed} bytes, but {given} are given", t.name())))
}
fn check_bytes_least(t: &TensorInfo, dims: &[i64], given: usize) -> Result<(), Error> {
    let needed = bytes_needed(t, dims)?;
    if given >= needed {
        return Ok(());
    }
    Err(Error::new(format!("state '{}': room for {dims:?} is {needed} bytes, but {given} are given", t.name())))
}
