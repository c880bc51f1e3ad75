// onnxc.hpp: models with a header of their own.
#include "mapped.h"
#include "mlp.h"
#include "positive.h"
#include <onnxc.hpp>

#define CHECK(x) \
    if (!(x)) return std::printf("%s:%d: %s\n", __FILE__, __LINE__, #x), 1

static int runs_a_model() {
    auto model = onnxc::typed<mlp_run>::sized(mlp_workspace_bytes());
    const float x[8] = {1, 2, 3, 4, -1, -2, -3, -4};
    float y[6];
    mlp_in in{};
    in.x_dim0 = 2;
    in.x = x;
    mlp_out out{};
    out.y = y;
    CHECK(model.run(in, out));
    CHECK(out.y_dim0 == 2 && y[0] == 7.5f && y[3] == 0);
    in.x = nullptr;
    auto failed = model.run(in, out);
    CHECK(!failed && failed.error().status == ONNXC_NULL_POINTER && failed.error().message.find("x") != std::string::npos);
    return 0;
}

static int moves_workspaces() {
    auto one = onnxc::typed<positive_run>::sized(positive_workspace_bytes(), POSITIVE_WORKSPACE_ALIGN);
    auto two = onnxc::typed<positive_run>::sized(0, 64); // as a header's macros: ints
    two = std::move(one);
    const float x[] = {1, -2, 3};
    float y[3];
    positive_in in{};
    in.x_dim0 = 3;
    in.x = x;
    positive_out out{};
    out.y = y;
    out.y_capacity = 1;
    CHECK(two.run(in, out).error().status == ONNXC_TOO_SMALL && out.y_dim0 == 2);
    out.y_capacity = 3;
    CHECK(two.run(in, out) && y[1] == 3);
    onnxc::workspace w(100, 256);
    CHECK(reinterpret_cast<uintptr_t>(w.data()) % 256 == 0);
    return 0;
}

static int opens_a_context() {
    using opened = onnxc::opened<mapped_open, mapped_close>;
    onnxc_options options{};
    options.weights = "nowhere.weights";
    auto none = opened::open(options);
    CHECK(!none && none.error().status == ONNXC_BAD_WEIGHTS && none.error().message.find("nowhere") != std::string::npos);
    options.weights = "mapped.weights";
    auto context = opened::open(options);
    CHECK(context);
    auto model = onnxc::typed<mapped_run>::sized(*context, mapped_workspace_bytes());
    const float x[4] = {1, 2, 3, 4};
    float y[3];
    mapped_in in{};
    in.x_dim0 = 1;
    in.x = x;
    mapped_out out{};
    out.y = y;
    CHECK(model.run(in, out) && y[0] == 7.5f);
    return 0;
}

int main() { return runs_a_model() || moves_workspaces() || opens_a_context(); }
