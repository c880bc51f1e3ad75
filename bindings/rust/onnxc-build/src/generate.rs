//! In: the C header of a model. Out: a Rust module with `Model`, whose `run` has a parameter for each input, and `Outputs`.

#[derive(Debug, PartialEq)]
struct Port {
    member: String,
    name: String,
    element: String, // a Rust type; "": not a tensor
    constant: bool,
    dims: Vec<Option<i64>>,
}

// "'x': float[N, 4]. Notes" as its name, element type and sizes.
fn parse_comment(comment: &str) -> Option<(String, String, Vec<Option<i64>>)> {
    let at = comment.rfind("': ")?;
    let name = comment.strip_prefix('\'')?[..at - 1].to_string();
    let text = &comment[at + 3..];
    let (dtype, rest) = match text.split_once('[') {
        Some(parts) if !parts.0.contains('(') => parts,
        _ => return Some((name, String::new(), Vec::new())),
    };
    // Names of sizes may contain brackets of their own.
    let mut depth = 1;
    let end = rest.find(|c| {
        depth += (c == '[') as i32 - (c == ']') as i32;
        depth == 0
    })?;
    let list = rest[..end].trim();
    let mut dims = Vec::new();
    let mut depth = 0;
    if !list.is_empty() {
        let split = |c: char| {
            depth += "([".contains(c) as i32 - ")]".contains(c) as i32;
            c == ',' && depth == 0
        };
        dims.extend(list.split(split).map(|d| d.trim().parse().ok()));
    }
    Some((name, dtype.to_string(), dims))
}

fn element(dtype: &str) -> Option<&'static str> {
    Some(match dtype {
        "float" => "f32",
        "double" => "f64",
        "uint8" => "u8",
        "int8" => "i8",
        "uint16" => "u16",
        "int16" => "i16",
        "int32" => "i32",
        "int64" => "i64",
        "uint32" => "u32",
        "uint64" => "u64",
        "bool" => "onnxc::Bool",
        "float16" => "onnxc::F16",
        "bfloat16" => "onnxc::Bf16",
        "complex64" => "onnxc::Complex<f32>",
        "complex128" => "onnxc::Complex<f64>",
        "string" => "onnxc::sys::onnxc_string",
        d if d.starts_with("float8") || d.starts_with("float6") || d.ends_with("int4") || d.ends_with("int2") || d == "float4e2m1" => "onnxc::Packed",
        _ => return None,
    })
}

// "const float *x; // 'x': float[N, 4]"
fn port(line: &str) -> Option<Port> {
    let (declaration, comment) = line.split_once("; // ")?;
    let (kind, member) = declaration.trim().split_once('*')?;
    let (name, dtype, dims) = parse_comment(comment)?;
    let element = if kind.contains("onnxc_value") { "" } else { element(&dtype).unwrap_or("") };
    Some(Port { member: member.into(), name, element: element.into(), constant: kind.starts_with("const "), dims })
}

// Pointers in the struct NAME_in or NAME_out.
fn ports(header: &str, name: &str) -> Result<Vec<Port>, String> {
    let head = format!("typedef struct {name} {{\n");
    let from = header.find(&head).ok_or_else(|| format!("the header has no struct {name}"))? + head.len();
    let body = &header[from..from + header[from..].find("\n}").unwrap_or(0)];
    Ok(body.lines().filter_map(port).collect())
}

fn rust_name(member: &str) -> String {
    const WORDS: &[&str] = &[
        "as", "async", "await", "box", "dyn", "final", "fn", "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut", "pub", "ref",
        "trait", "try", "type", "unsafe", "use", "where", "yield", "abstract", "become", "override", "priv", "typeof", "unsized", "virtual",
    ];
    if ["self", "Self", "super", "crate"].contains(&member) {
        return format!("{member}_");
    }
    if WORDS.contains(&member) { format!("r#{member}") } else { member.into() }
}

fn constant_shape(p: &Port) -> Option<Vec<i64>> {
    p.dims.iter().copied().collect()
}

fn parameter(p: &Port) -> Result<(String, String), String> {
    let (name, text) = (rust_name(&p.member), format!("{:?}", p.name));
    let shape = constant_shape(p);
    if p.element.is_empty() {
        return Err(format!("input {text} is not a tensor; run this model with onnxc::Session"));
    }
    let packed = p.element == "onnxc::Packed";
    let count: i64 = shape.iter().flatten().product();
    let dims = shape.as_ref().map(|d| format!("&{d:?}").replace("&[]", "&[0i64; 0]"));
    Ok(if p.element.ends_with("onnxc_string") {
        match dims {
            Some(d) => (format!("{name}: &[&str; {count}]"), format!(".strings_named({text}, {d}, {name})?")),
            None => (format!("{name}: (&[i64], &[&str])"), format!(".strings_named({text}, {name}.0, {name}.1)?")),
        }
    } else if !p.constant {
        match dims {
            Some(d) if !packed => (format!("{name}: &mut [{}; {count}]", p.element), format!(".state_named({text}, {d}, {name})?")),
            _ => (format!("{name}: (&[i64], &mut [{}])", p.element), format!(".state_named({text}, {name}.0, {name}.1)?")),
        }
    } else {
        match dims {
            Some(d) if !packed => {
                (format!("{name}: &[{}; {count}]", p.element), format!(".input_named({text}, onnxc::View::new({d}, {name})?)?"))
            }
            _ => (format!("{name}: onnxc::View<'_, {}>", p.element), format!(".input_named({text}, {name})?")),
        }
    })
}

pub fn module(name: &str, header: &str) -> Result<String, String> {
    let inputs = ports(header, &format!("{name}_in"))?;
    let outputs: Vec<Port> = ports(header, &format!("{name}_out"))?;
    let context = header.contains(&format!("int {name}_open("));
    let (mut parameters, mut calls) = (String::new(), String::new());
    for p in &inputs {
        let (parameter, call) = parameter(p)?;
        parameters += &format!(", {parameter}");
        calls += &format!("\n            {call}");
    }
    let (mut members, mut values) = (String::new(), String::new());
    for p in &outputs {
        let member = rust_name(&p.member);
        let text = format!("{:?}", p.name);
        if p.element.is_empty() {
            return Err(format!("output {text} is not a tensor; run this model with onnxc::Session"));
        }
        members += &format!("    pub {member}: onnxc::View<'a, {}>,\n", p.element);
        values += &format!("            {member}: session.output_named({text})?,\n");
    }
    let (open, close) = if context { (format!("Some({name}_open)"), format!("Some({name}_close)")) } else { ("None".into(), "None".into()) };
    let declared = if context {
        format!(
            "    fn {name}_open(options: *const sys::onnxc_options, context: *mut *mut sys::onnxc_context) -> std::os::raw::c_int;\n    \
             fn {name}_close(context: *mut sys::onnxc_context);\n"
        )
    } else {
        String::new()
    };
    Ok(format!(
        "// Generated from {name}.h by onnxc-build.
use onnxc::sys;

onnxc::extern_c! {{
    static {name}_descriptor: [i64; 1];
    fn {name}_run_generic(
        data: *const *mut std::os::raw::c_void, dims: *mut i64, capacity: *const i64, workspace: *mut std::os::raw::c_void, size: usize,
        message: *mut *const std::os::raw::c_char,
    ) -> std::os::raw::c_int;
    fn {name}_workspace_generic(dims: *const i64) -> i64;
{declared}}}

/// Names, types and sizes, and what `onnxc::Session` needs.
pub fn info() -> Result<onnxc::Model<'static>, onnxc::Error> {{
    unsafe {{
        onnxc::Model::from_raw(sys::onnxc_model {{
            descriptor: core::ptr::addr_of!({name}_descriptor).cast(),
            run: Some({name}_run_generic),
            workspace: Some({name}_workspace_generic),
            open: {open},
            close: {close},
        }})
    }}
}}

/// The model with the memory for its runs: one per thread.
pub struct Model {{
    session: onnxc::Session<'static>,
}}

/// The outputs of a run, valid until the next one.
pub struct Outputs<'a> {{
{members}    _model: core::marker::PhantomData<&'a ()>,
}}

impl Model {{
    pub fn new() -> Result<Model, onnxc::Error> {{
        Ok(Model {{ session: onnxc::Session::new(info()?)? }})
    }}
    pub fn with_options(options: &onnxc::OpenOptions) -> Result<Model, onnxc::Error> {{
        Ok(Model {{ session: onnxc::Session::with_options(info()?, options)? }})
    }}
    #[allow(clippy::too_many_arguments)]
    pub fn run<'a>(&'a mut self{parameters}) -> Result<Outputs<'a>, onnxc::Error> {{
        let session = self
            .session
            .start(){calls}
            .finish()?;
        Ok(Outputs {{
{values}            _model: core::marker::PhantomData,
        }})
    }}
}}
"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_comments() {
        assert_eq!(parse_comment("'x': float[N, 4]"), Some(("x".into(), "float".into(), vec![None, Some(4)])));
        assert_eq!(parse_comment("'a': b': int64[]"), Some(("a': b".into(), "int64".into(), vec![])));
        assert_eq!(parse_comment("'y': float[max(N, 2), ?y.count]"), Some(("y".into(), "float".into(), vec![None, None])));
        assert_eq!(parse_comment("'v': sequence(float[3])").unwrap().1, "");
        for dtype in ["float8e4m3fn", "float6e2m3", "float4e2m1", "uint4", "int2"] {
            assert_eq!(element(dtype), Some("onnxc::Packed"));
        }
    }

    #[test]
    fn reads_structs() {
        let header = "typedef struct m_in {\n    int64_t x_dim0; // N\n    const float *x; // 'x': float[N]\n    int64_t *past; // 'p': int64[3]\n} m_in;\n";
        let found = ports(header, "m_in").unwrap();
        assert_eq!(found.len(), 2);
        assert!(found[0].constant && !found[1].constant && found[1].dims == [Some(3)] && found[1].name == "p");
    }
}
