fn main() {
    onnxc_build::Model::new("../../../samples/digits/digits.onnx").compile();
    onnxc_build::Model::new("../../../test/cli/mlp.onnx").name("dense").option("-O3").compile();
    onnxc_build::Model::new("../../../test/cli/strings.onnx").compile();
    onnxc_build::Model::new("../../../test/cli/positive.onnx").compile();
    onnxc_build::Model::new("../../../test/cli/slide.onnx").options(["--state", "next=past"]).compile();
}
