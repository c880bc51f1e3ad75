//! Element types of tensors.
use crate::{sys, Error};

/// A type of elements, with its number in ONNX (`TensorProto.DataType`).
///
/// # Safety
/// Any bits that a model writes must be a value of the type, and its size that of the element.
pub unsafe trait Element: Copy + 'static {
    const DTYPE: i32;
    fn is(dtype: i32) -> bool {
        dtype == Self::DTYPE
    }
}

macro_rules! elements {
    ($($t:ty = $n:expr),* $(,)?) => { $(unsafe impl Element for $t { const DTYPE: i32 = $n; })* };
}

/// The bits of a float16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct F16(pub u16);
/// The bits of a bfloat16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Bf16(pub u16);
/// One byte: 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Bool(pub u8);
impl From<bool> for Bool {
    fn from(b: bool) -> Bool {
        Bool(b as u8)
    }
}
impl From<Bool> for bool {
    fn from(b: Bool) -> bool {
        b.0 != 0
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Default)]
#[repr(C)]
pub struct Complex<T> {
    pub re: T,
    pub im: T,
}
/// A byte of floats of 8 bits, or of packed elements of 4 or 2 bits, the first of them in the low bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Packed(pub u8);

elements! { f32 = 1, u8 = 2, i8 = 3, u16 = 4, i16 = 5, i32 = 6, i64 = 7, sys::onnxc_string = 8, Bool = 9, F16 = 10, f64 = 11,
    u32 = 12, u64 = 13, Complex<f32> = 14, Complex<f64> = 15, Bf16 = 16 }
unsafe impl Element for Packed {
    const DTYPE: i32 = 17;
    fn is(dtype: i32) -> bool {
        dtype > 16
    }
}

pub(crate) fn bits_of(dtype: i32) -> usize {
    match dtype {
        2 | 3 | 9 | 17..=20 | 24 => 8,
        4 | 5 | 10 | 16 => 16,
        1 | 6 | 12 => 32,
        7 | 11 | 13 | 14 => 64,
        15 => 128,
        8 => 8 * std::mem::size_of::<sys::onnxc_string>(),
        21..=23 => 4,
        25 | 26 => 2,
        _ => 8,
    }
}

pub(crate) fn bytes_of(dtype: i32, count: usize) -> usize {
    (count * bits_of(dtype) + 7) / 8
}

/// The number of elements; `None` if it is negative or too large.
pub(crate) fn count_of(dims: &[i64]) -> Option<usize> {
    dims.iter().try_fold(1usize, |n, &d| n.checked_mul(usize::try_from(d).ok()?))
}

// Of packed elements the type alone does not tell how many are in a byte: the session checks it.
pub(crate) fn check_count<T: Element>(dims: &[i64], len: usize) -> Result<(), Error> {
    match count_of(dims) {
        Some(n) if n == len || T::DTYPE == Packed::DTYPE => Ok(()),
        Some(n) => Err(Error::new(format!("a tensor of shape {dims:?} has {n} elements, but {len} are given"))),
        None => Err(Error::new(format!("{dims:?} is not the shape of a tensor"))),
    }
}
