//! Models of any kind, compiled in this process.
#![cfg(feature = "compiler")]
use onnxc::compiler::{self, Job};
use onnxc::{Library, Model, Session, View};

fn models() -> String {
    format!("{}/../../../test/cli", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_model_is_described_and_run() {
    let path = format!("{}/mlp.onnx", models());
    let loaded = compiler::load(&Job::of_file(&path)).unwrap();
    let model = loaded.model().unwrap();
    let x = model.inputs().next().unwrap();
    assert_eq!((x.name(), x.type_text(), x.dims(), x.dim_texts()), ("x", "float[N, 4]", vec![-1, 4], vec!["N", "4"]));
    assert_eq!(model.compiler_version(), compiler::version());
    let mut session = Session::new(model).unwrap();
    let data = [1.0f32; 8];
    let dims = [2, 4];
    let done = session.start().input_named("x", View::new(&dims, &data).unwrap()).unwrap().finish().unwrap();
    let y = done.output_named::<f32>("y").unwrap();
    assert_eq!((y.dims(), y[0]), (&[2i64, 3][..], 2.25));
    assert!(done.output_named::<f64>("y").is_err() && done.output_named::<f32>("z").is_err());
}

#[test]
fn wrong_use_is_an_error() {
    let path = format!("{}/mlp.onnx", models());
    let loaded = compiler::load(&Job::of_file(&path)).unwrap();
    let mut session = Session::new(loaded.model().unwrap()).unwrap();
    assert_eq!(session.output::<f32>(0).err().unwrap().to_string(), "there was no successful run yet");
    assert_eq!(session.start().finish().err().unwrap().to_string(), "input 'x' is missing");
    let (ints, floats) = ([0i32; 4], [0f32; 4]);
    let text = session.start().input(0, View::new(&[1, 4], &ints).unwrap()).err().unwrap().to_string();
    assert_eq!(text, "input 'x' (float[N, 4]) has another element type");
    let text = session.start().input(0, View::new(&[4], &floats).unwrap()).err().unwrap().to_string();
    assert_eq!(text, "input 'x' (float[N, 4]): a tensor of shape [4] has another rank");
    assert!(View::new(&[1, 3], &floats).is_err() && View::new(&[-1, 4], &floats).is_err() && View::new(&[i64::MAX, 4], &floats).is_err());
}

#[test]
fn a_failed_compilation_says_why() {
    let error = compiler::load(&Job::of_file("nowhere.onnx")).err().unwrap();
    assert!(error.to_string().contains("nowhere.onnx") && error.status().is_none());
    let error = compiler::compile(&Job::of_memory(b"not a model")).err().unwrap();
    assert_eq!(error.to_string().matches("hint:").count(), 1, "{error}");
}

#[test]
fn libraries_of_another_interface_are_refused() {
    let path = format!("{}/mlp.onnx", models());
    let folder = std::env::temp_dir().join(format!("onnxc-rust-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let so = folder.join("mlp.so");
    let linked = compiler::compile(&Job::of_file(&path).option("-o").option(so.to_str().unwrap()));
    linked.unwrap();
    let name = unsafe { Library::open(&so) }.unwrap().model().unwrap().name().to_string();
    assert_eq!(name, "mlp");
    let mut bytes = std::fs::read(&so).unwrap();
    let at = bytes.windows(8).position(|w| w == b"onnxc-m\0").unwrap();
    bytes[at + 8] = 77;
    let old = folder.join("old.so");
    std::fs::write(&old, bytes).unwrap();
    let error = unsafe { Library::open(&old) }.err().unwrap();
    assert!(error.to_string().contains("interface version 77"), "{error}");
    assert!(unsafe { Library::open("nowhere.so") }.is_err());
    std::fs::remove_dir_all(&folder).unwrap();
    // A descriptor that is checked before anything else of it is read.
    let mut d = [0u64; 32];
    unsafe { std::ptr::copy_nonoverlapping(b"onnxc-m\0\x63".as_ptr(), d.as_mut_ptr().cast(), 9) };
    unsafe extern "C" fn run(_: *const *mut std::os::raw::c_void, _: *mut i64, _: *const i64, _: *mut std::os::raw::c_void, _: usize, _: *mut *const std::os::raw::c_char) -> i32 { 0 }
    unsafe extern "C" fn workspace(_: *const i64) -> i64 { 0 }
    let raw = onnxc::sys::onnxc_model { descriptor: d.as_ptr().cast(), run: Some(run), workspace: Some(workspace), open: None, close: None };
    assert!(unsafe { Model::from_raw(raw) }.is_err());
}

#[test]
fn states_that_grow_need_room() {
    let path = std::env::temp_dir().join(format!("onnxc-rust-{}.onnxtxt", std::process::id()));
    let text = "<ir_version: 8, opset_import: [\"\": 17]> grow (float[B, N] x, float[B, P] past) => (float[B, Q] all) { all = Concat <axis = 1> (past, x) }";
    std::fs::write(&path, text).unwrap();
    let loaded = compiler::load(&Job::of_file(path.to_str().unwrap()).option("--state").option("all=past").option("--dim").option("P=0:5"));
    std::fs::remove_file(&path).unwrap();
    let loaded = loaded.unwrap();
    let mut session = Session::new(loaded.model().unwrap()).unwrap();
    let (dims, x) = ([2, 2], [1.0f32, 2.0, 3.0, 4.0]);
    let mut room = [0.0f32; 10];
    let small = session.start().state_named("past", &[2, 0], &mut room[..9]).err().unwrap().to_string();
    assert_eq!(small, "state 'past': room for [2, 5] is 40 bytes, but 36 are given");
    session.start().input(0, View::new(&dims, &x).unwrap()).unwrap().state_named("past", &[2, 0], &mut room).unwrap().finish().unwrap();
    assert_eq!(room, [1.0, 2.0, 0.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0, 0.0]);
}
