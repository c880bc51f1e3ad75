class Onnxc < Formula
  desc "Ahead-of-time compiler for ONNX models"
  homepage "@HOME@"
  url "@SOURCE@"
  sha256 "@SOURCE_SHA256@"
  license "Apache-2.0"

  depends_on "jansson"
  depends_on "lld@19"
  depends_on :linux # objects are ELF
  depends_on "llvm@19"
  depends_on "protobuf-c"
  depends_on "zlib"

  def install
    llvm_config = formula_opt_bin("llvm@19")/"llvm-config"
    args = ["LLVM_CONFIG=#{llvm_config}", "CC=#{ENV.cc}"]
    system "make", *args
    system "make", "install", "PREFIX=#{prefix}", "LLD=#{formula_opt_bin("lld@19")}/ld.lld", *args
  end

  def formula_opt_bin(name)
    Formula[name].opt_bin
  end

  test do
    (testpath/"relu.onnxtxt").write <<~EOS
      <ir_version: 8, opset_import: ["": 18]>
      relu (float[4] x) => (float[4] y) { y = Relu (x) }
    EOS
    system bin/"onnxc", "relu.onnxtxt", "-o", "relu.o"
    assert_path_exists testpath/"relu.h"
    assert_match "y: float[4]", shell_output("#{bin}/onnxc run relu.onnxtxt --input x=random")
  end
end
