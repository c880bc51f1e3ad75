//! Descriptors of models.
use crate::{sys, Error};
use std::ffi::CStr;

/// A compiled model: its descriptor and functions. It lives as long as its library or the program.
#[derive(Clone, Copy)]
pub struct Model<'a> {
    raw: sys::onnxc_model,
    descriptor: &'a sys::onnxc_descriptor,
}

// Descriptors are constant, and runs have separate workspaces.
unsafe impl Send for Model<'_> {}
unsafe impl Sync for Model<'_> {}

/// An input or output.
#[derive(Clone, Copy)]
pub struct TensorInfo<'a> {
    model: Model<'a>,
    pub(crate) raw: &'a sys::onnxc_tensor_info,
}

impl<'a> Model<'a> {
    /// Checks the version of the interface.
    ///
    /// # Safety
    /// `raw` must be a model (`NAME_MODEL`, or what a function of `onnxc.h` returned) that lives for `'a`.
    pub unsafe fn from_raw(raw: sys::onnxc_model) -> Result<Model<'a>, Error> {
        let descriptor = (raw.descriptor as *const sys::onnxc_descriptor).as_ref().ok_or_else(|| Error::new("the model has no descriptor"))?;
        if &descriptor.magic != b"onnxc-m\0" || raw.run.is_none() || raw.workspace.is_none() {
            return Err(Error::new("not a model that onnxc compiled"));
        }
        if descriptor.interface_version != sys::ONNXC_INTERFACE {
            return Err(Error::new(format!(
                "the model has interface version {}, but this crate needs {}; compile it again",
                descriptor.interface_version,
                sys::ONNXC_INTERFACE
            )));
        }
        Ok(Model { raw, descriptor })
    }
    pub fn raw(&self) -> &sys::onnxc_model {
        &self.raw
    }
    pub(crate) fn descriptor(&self) -> &'a sys::onnxc_descriptor {
        self.descriptor
    }
    fn text(&self, at: u32) -> &'a str {
        let text = unsafe { CStr::from_ptr((self.raw.descriptor as *const u8).add(at as usize).cast()) };
        text.to_str().unwrap_or("")
    }
    fn array<T>(&self, at: u32, count: u32) -> &'a [T] {
        if count == 0 {
            return &[];
        }
        unsafe { std::slice::from_raw_parts((self.raw.descriptor as *const u8).add(at as usize).cast(), count as usize) }
    }
    pub fn name(&self) -> &'a str {
        self.text(self.descriptor.name)
    }
    pub fn graph_name(&self) -> &'a str {
        self.text(self.descriptor.graph_name)
    }
    pub fn doc(&self) -> &'a str {
        self.text(self.descriptor.doc)
    }
    pub fn producer(&self) -> &'a str {
        self.text(self.descriptor.producer)
    }
    /// The version of onnxc that compiled it.
    pub fn compiler_version(&self) -> &'a str {
        self.text(self.descriptor.version)
    }
    pub fn target(&self) -> &'a str {
        self.text(self.descriptor.target)
    }
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = TensorInfo<'a>> + 'a {
        let model = *self;
        self.array::<sys::onnxc_tensor_info>(self.descriptor.inputs, self.descriptor.ninputs).iter().map(move |raw| TensorInfo { model, raw })
    }
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = TensorInfo<'a>> + 'a {
        let model = *self;
        self.array::<sys::onnxc_tensor_info>(self.descriptor.outputs, self.descriptor.noutputs).iter().map(move |raw| TensorInfo { model, raw })
    }
    pub fn metadata(&self) -> Vec<(&'a str, &'a str)> {
        let texts = self.array::<u32>(self.descriptor.metadata, 2 * self.descriptor.nmetadata);
        texts.chunks(2).map(|pair| (self.text(pair[0]), self.text(pair[1]))).collect()
    }
}

impl<'a> TensorInfo<'a> {
    pub fn name(&self) -> &'a str {
        self.model.text(self.raw.name)
    }
    pub fn doc(&self) -> &'a str {
        self.model.text(self.raw.doc)
    }
    /// "float[N, 3]", "sequence(float[...])"
    pub fn type_text(&self) -> &'a str {
        self.model.text(self.raw.type_)
    }
    /// ONNX's `TensorProto.DataType`.
    pub fn dtype(&self) -> i32 {
        self.raw.dtype
    }
    /// A sequence, optional or map, or a tensor of any rank.
    pub fn is_value(&self) -> bool {
        self.raw.kind != 0
    }
    pub fn has_default(&self) -> bool {
        self.raw.has_default != 0
    }
    /// Sizes; -1: not constant.
    pub fn dims(&self) -> Vec<i64> {
        self.model.array::<sys::onnxc_dim_info>(self.raw.dims, self.raw.rank).iter().map(|d| d.value).collect()
    }
    /// Sizes as text: "3", "batch", "2*N + 1".
    pub fn dim_texts(&self) -> Vec<&'a str> {
        self.model.array::<sys::onnxc_dim_info>(self.raw.dims, self.raw.rank).iter().map(|d| self.model.text(d.text)).collect()
    }
}
