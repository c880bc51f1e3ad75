//! Strings, sequences, optionals and maps that a model returns.
use crate::element::bytes_of;
use crate::sys;

/// A copy of an output that is not a tensor of fixed rank.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An empty optional.
    Nothing,
    Tensor { dtype: i32, dims: Vec<i64>, bytes: Vec<u8> },
    Strings { dims: Vec<i64>, texts: Vec<String> },
    Sequence(Vec<Value>),
    /// Keys and values: tensors with one axis.
    Map(Box<Value>, Box<Value>),
}

pub(crate) fn text_of(s: &sys::onnxc_string) -> String {
    if s.data.is_null() || s.size == 0 {
        return String::new();
    }
    let bytes = unsafe { std::slice::from_raw_parts(s.data as *const u8, s.size) };
    String::from_utf8_lossy(bytes).into_owned()
}

unsafe fn slice<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if count == 0 || data.is_null() {
        &[]
    } else {
        std::slice::from_raw_parts(data, count)
    }
}

impl Value {
    pub(crate) unsafe fn copy(v: &sys::onnxc_value) -> Value {
        let count = v.count.max(0) as usize;
        let items = || slice(v.data as *const sys::onnxc_value, if v.kind == 3 { 2 } else { count });
        match v.kind {
            1 => {
                let dims = slice(v.dims, v.rank.max(0) as usize).to_vec();
                if v.dtype == 8 {
                    let texts = slice(v.data as *const sys::onnxc_string, count).iter().map(text_of).collect();
                    return Value::Strings { dims, texts };
                }
                Value::Tensor { dtype: v.dtype, dims, bytes: slice(v.data as *const u8, bytes_of(v.dtype, count)).to_vec() }
            }
            2 => Value::Sequence(items().iter().map(|item| Value::copy(item)).collect()),
            3 => Value::Map(Box::new(Value::copy(&items()[0])), Box::new(Value::copy(&items()[1]))),
            _ => Value::Nothing,
        }
    }
}
