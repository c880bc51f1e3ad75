// onnxc.hpp: any model, by its descriptor. onnxc_compiler.hpp: the compiler in process.
#include <onnxc_compiler.hpp>
#include <thread>

#define CHECK(x) \
    if (!(x)) return std::printf("%s:%d: %s\n", __FILE__, __LINE__, #x), 1

static int describes_a_model(onnxc::library &library) {
    const onnxc::model m = library.model();
    CHECK(m.check_interface() && m.name() == "mlp" && m.input_count() == 1 && m.output_count() == 1);
    const onnxc::tensor_info x = m.input(0);
    CHECK(x.name() == "x" && x.dtype() == 1 && x.rank() == 2 && x.dim(0) == -1 && x.dim_text(0) == "N" && x.dim(1) == 4);
    CHECK(x.type() == "float[N, 4]" && !x.is_value() && m.compiler_version() == onnxc::compiler_version());
    return 0;
}

static int runs_at_several_sizes(onnxc::library library) {
    auto opened = onnxc::session::open(std::move(library));
    CHECK(opened);
    onnxc::session s = std::move(opened).value();
    for (int64_t n : {2, 5, 0, 1}) {
        const std::vector<float> x(static_cast<std::size_t>(n) * 4, 1.0f);
        CHECK(s.input("x", onnxc::view<const float>({n, 4}, x)));
        CHECK(s.run());
        auto y = s.output<float>("y");
        CHECK(y && y->dims() == onnxc::shape({n, 3}) && y->size() == static_cast<std::size_t>(n) * 3);
        if (n) CHECK((*y)(n - 1, 2) == 3.25f);
    }
    return 0;
}

static int reports_wrong_use(onnxc::session &s) {
    const float x[8] = {};
    const int32_t i[4] = {};
    CHECK(s.output<float>("y").error().message == "there was no successful run yet");
    CHECK(s.run().error().message == "input 'x' is missing");
    CHECK(s.input("z", {1, 4}, x).error().message == "the model has no input 'z', only 'x'");
    CHECK(s.input("x", {4}, x).error().message == "input 'x' (float[N, 4]): a tensor of shape [4] has another rank");
    CHECK(s.input("x", {1, 4}, i).error().message == "input 'x' (float[N, 4]) has another element type");
    CHECK(s.input("x", {1, 5}, x));
    auto failed = s.run();
    CHECK(failed.error().status == ONNXC_BAD_DIM && !failed.error().message.empty());
    CHECK(s.input("x", {1, 4}, x) && s.run());
    CHECK(s.output<double>("y").error().message == "output 'y' is float[N, 3]");
    return 0;
}

static int grows_outputs() {
    auto model = onnxc::load(onnxc::job::of_file("positive.onnx"));
    CHECK(model);
    auto s = onnxc::session::open(std::move(model).value());
    CHECK(s);
    for (int n : {3, 100, 7}) {
        std::vector<float> x(static_cast<std::size_t>(n), 1.0f);
        x[0] = -1;
        CHECK(s->input("x", onnxc::view<float>({n}, x)) && s->run());
        CHECK(s->output<float>(0)->size() == static_cast<std::size_t>(n) - 1);
    }
    return 0;
}

static int takes_strings() {
    auto s = onnxc::session::open(onnxc::load(onnxc::job::of_file("strings.onnx")).value());
    CHECK(s);
    const onnxc_string a[2] = {{"on", 2}, {"", 0}}, b[2] = {{"nxc", 3}, {"b", 1}};
    for (int i = 0; i < 2; i++) { // the second run frees what the first returned
        CHECK(s->input("a", {2}, a) && s->input("b", {2}, b) && s->run());
        auto c = s->output<onnxc_string>("c");
        CHECK(c && onnxc::text((*c)[0]) == "onnxc" && onnxc::text((*c)[1]) == "b");
    }
    return 0;
}

static int compiles() {
    CHECK(onnxc::compile(onnxc::job::of_file("mlp.onnx", {"-o", "again.o"})));
    auto object = onnxc::compile_to_memory(onnxc::job::of_file("mlp.onnx"));
    CHECK(object && object->size() > 64 && object->text().substr(1, 3) == "ELF");
    int messages = 0;
    onnxc::job wrong = onnxc::job::of_file("nowhere.onnx");
    wrong.on_message = [&](const onnxc_message &m) { messages += m.severity == ONNXC_ERROR; };
    auto failed = onnxc::load(wrong);
    auto hinted = onnxc::compile(onnxc::job::of_file("mlp.onnx", {"--target=pdp11", "-o", "no.o"}));
    CHECK(hinted.error().message.find("hint:") == hinted.error().message.rfind("hint:"));
    CHECK(!failed && failed.error().status == ONNXC_WRONG_MODEL && messages == 1);
    CHECK(failed.error().message.find("nowhere.onnx") != std::string::npos);
    onnxc::job stopped = onnxc::job::of_file("mlp.onnx");
    stopped.cancelled = [] { return true; };
    onnxc_result said = ONNXC_COMPILED;
    stopped.on_message = [&](const onnxc_message &m) { said = m.result; };
    CHECK(onnxc::load(stopped).error().status == ONNXC_STOPPED && said == ONNXC_STOPPED);
    onnxc::job small = onnxc::job::of_file("mlp.onnx");
    small.memory_limit = 1000;
    small.on_message = [&](const onnxc_message &m) { said = m.result; };
    said = ONNXC_COMPILED;
    CHECK(onnxc::load(small).error().status == ONNXC_STOPPED && said == ONNXC_STOPPED);
    return 0;
}

static int refuses_other_interfaces() {
    auto old = onnxc::library::open("old.so");
    CHECK(!old && old.error().message.find("interface version 1") != std::string::npos);
    onnxc_descriptor d{};
    std::memcpy(d.magic, "onnxc-m", 8);
    d.interface_version = ONNXC_INTERFACE + 1;
    onnxc_model raw{};
    raw.descriptor = &d;
    CHECK(!onnxc::session::open(onnxc::model(raw)));
    return 0;
}

static int throws() {
#ifndef ONNXC_NO_EXCEPTIONS
    try {
        onnxc::library("nowhere.so");
        return 1;
    } catch (const onnxc::failure &e) {
        CHECK(std::string(e.what()).find("nowhere.so") != std::string::npos);
    }
    onnxc::session s(onnxc::library("mlp.so"));
    const float x[4] = {1, 1, 1, 1};
    s.input("x", {1, 4}, x).check();
    s.run().check();
    CHECK(s.output<float>("y").value()[0] == 2.25f);
#endif
    return 0;
}

int main() {
    auto library = onnxc::library::open("mlp.so");
    if (!library) return std::printf("%s\n", library.error().message.c_str()), 1;
    const onnxc::use_threads one(1);
    auto session = onnxc::session::open(library->model());
    if (!session || describes_a_model(*library) || reports_wrong_use(*session)) return 1;
    session = onnxc::session::open(library->model()); // before the library is closed
    { auto dropped = std::move(session); }
    return runs_at_several_sizes(std::move(library).value()) || grows_outputs() || takes_strings() || compiles() ||
           refuses_other_interfaces() || throws();
}
