// onnxc.hpp: compiled models in C++17. Header only; programs link with the model and libonnxc-rt.a, as in C.
//
// A model whose header the program includes (NAME.h) is called through its own structs, with memory that is allocated once:
//
//     auto model = onnxc::typed<mnist_run>::sized(mnist_workspace_bytes());
//     mnist_in in{.image = pixels};
//     mnist_out out{.logits = scores};
//     if (auto done = model.run(in, out); !done) std::fputs(done.error().message.c_str(), stderr);
//
// Any other model is a session, which allocates the outputs:
//
//     onnxc::session s(onnxc::library("mnist.so"));
//     s.input("image", {1, 28, 28}, pixels).check();
//     s.run().check();
//     for (float x : s.output<float>("logits").value()) ...
//
// Errors: functions return an onnxc::result, which holds a value or an error. result::value() and check() throw
// onnxc::failure, as do constructors that load files. Without exceptions (-fno-exceptions, or ONNXC_NO_EXCEPTIONS defined
// before the include) value() and check() print the error and abort, and the static functions `open` take the place of these
// constructors.
#ifndef ONNXC_HPP
#define ONNXC_HPP
#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 201703L
#error "onnxc.hpp needs C++17: -std=c++17 or later"
#endif
#include <onnxc.h>

#include <array>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if !defined(ONNXC_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define ONNXC_NO_EXCEPTIONS
#endif
#ifndef ONNXC_NO_EXCEPTIONS
#include <stdexcept>
#endif

namespace onnxc {

// ---- Errors
struct error_info {
    int status = 0; // an onnxc_status; with the compiler (onnxc_compiler.hpp), an onnxc_result; -1: wrong use of this header
    std::string message;
};

#ifndef ONNXC_NO_EXCEPTIONS
class failure : public std::runtime_error {
public:
    explicit failure(const error_info &e) : std::runtime_error(e.message), status_(e.status) {}
    int status() const noexcept { return status_; }

private:
    int status_;
};
#endif

namespace detail {
[[noreturn]] inline void fail(const error_info &e) {
#ifndef ONNXC_NO_EXCEPTIONS
    throw failure(e);
#else
    std::fprintf(stderr, "onnxc: %s\n", e.message.c_str());
    std::abort();
#endif
}
inline error_info wrong_use(std::string message) { return {-1, std::move(message)}; }
inline error_info of_status(int status, const char *message) {
    return {status, message && *message ? message : onnxc_status_text(status)};
}
} // namespace detail

template <class T> class [[nodiscard]] result {
public:
    result(T value) : value_(new T(std::move(value))) {}
    result(error_info e) : error_(std::move(e)) {}
    explicit operator bool() const noexcept { return value_ != nullptr; }
    const error_info &error() const noexcept { return error_; }
    T &value() & { return check(), *value_; }
    T &&value() && { return check(), std::move(*value_); }
    T *operator->() { return &value(); }
    T &operator*() & { return value(); }
    T &&operator*() && { return std::move(*this).value(); }
    void check() const {
        if (!value_) detail::fail(error_);
    }

private:
    std::unique_ptr<T> value_;
    error_info error_;
};

template <> class [[nodiscard]] result<void> {
public:
    result() = default;
    result(error_info e) : error_(std::move(e)), failed_(true) {}
    explicit operator bool() const noexcept { return !failed_; }
    const error_info &error() const noexcept { return error_; }
    void check() const {
        if (failed_) detail::fail(error_);
    }
    void value() const { check(); }

private:
    error_info error_;
    bool failed_ = false;
};

// ---- Views
// A pointer and a count, as std::span of C++20.
template <class T> class span {
public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using iterator = T *;
    constexpr span() = default;
    constexpr span(T *data, std::size_t size) : data_(data), size_(size) {}
    template <std::size_t N> constexpr span(T (&array)[N]) : data_(array), size_(N) {}
    template <class C, class = std::enable_if_t<std::is_convertible_v<decltype(std::declval<C &>().data()), T *>>>
    constexpr span(C &container) : data_(container.data()), size_(container.size()) {}
    template <class C, class = std::enable_if_t<std::is_const_v<T> && std::is_convertible_v<decltype(std::declval<const C &>().data()), T *>>, class = void>
    constexpr span(const C &container) : data_(container.data()), size_(container.size()) {}
    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return !size_; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t i) const { return data_[i]; }
    constexpr T &front() const { return data_[0]; }
    constexpr T &back() const { return data_[size_ - 1]; }
    constexpr span subspan(std::size_t from, std::size_t count) const { return {data_ + from, count}; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

// The sizes of a tensor.
using shape = std::vector<int64_t>;

inline std::size_t count_of(const shape &dims) {
    std::size_t n = 1;
    for (int64_t d : dims) n *= static_cast<std::size_t>(d);
    return n;
}

inline std::string to_string(const shape &dims) {
    std::string text = "[";
    for (std::size_t i = 0; i < dims.size(); i++) text += (i ? ", " : "") + std::to_string(dims[i]);
    return text + "]";
}

// A dense tensor somewhere in memory.
template <class T> class view {
public:
    view() = default;
    view(shape dims, T *data) : dims_(std::move(dims)), data_(data, count_of(dims_)) {}
    view(shape dims, span<T> data) : dims_(std::move(dims)), data_(data) {}
    const shape &dims() const noexcept { return dims_; }
    span<T> elements() const noexcept { return data_; }
    T *data() const noexcept { return data_.data(); }
    std::size_t size() const noexcept { return data_.size(); }
    T *begin() const noexcept { return data_.begin(); }
    T *end() const noexcept { return data_.end(); }
    // One index: an element of the flat array. As many as the rank: an element by its position.
    template <class... I> T &operator()(I... at) const {
        const std::array<int64_t, sizeof...(I)> index{static_cast<int64_t>(at)...};
        if (index.size() == 1) return data_[static_cast<std::size_t>(index[0])];
        int64_t flat = 0;
        for (std::size_t i = 0; i < index.size() && i < dims_.size(); i++) flat = flat * dims_[i] + index[i];
        return data_[static_cast<std::size_t>(flat)];
    }
    T &operator[](std::size_t i) const { return data_[i]; }

private:
    shape dims_;
    span<T> data_;
};

// ---- Element types (ONNX's TensorProto.DataType)
struct float16 {
    uint16_t bits;
};
struct bfloat16 {
    uint16_t bits;
};
// Floats of 8 bits have one byte per element; elements of 4 and 2 bits are packed, the first in the low bits.
struct packed_byte {
    uint8_t bits;
};

template <class T> struct element_type;
template <> struct element_type<float> : std::integral_constant<int, 1> {};
template <> struct element_type<uint8_t> : std::integral_constant<int, 2> {};
template <> struct element_type<int8_t> : std::integral_constant<int, 3> {};
template <> struct element_type<uint16_t> : std::integral_constant<int, 4> {};
template <> struct element_type<int16_t> : std::integral_constant<int, 5> {};
template <> struct element_type<int32_t> : std::integral_constant<int, 6> {};
template <> struct element_type<int64_t> : std::integral_constant<int, 7> {};
template <> struct element_type<onnxc_string> : std::integral_constant<int, 8> {};
template <> struct element_type<bool> : std::integral_constant<int, 9> {};
template <> struct element_type<float16> : std::integral_constant<int, 10> {};
template <> struct element_type<double> : std::integral_constant<int, 11> {};
template <> struct element_type<uint32_t> : std::integral_constant<int, 12> {};
template <> struct element_type<uint64_t> : std::integral_constant<int, 13> {};
template <> struct element_type<std::complex<float>> : std::integral_constant<int, 14> {};
template <> struct element_type<std::complex<double>> : std::integral_constant<int, 15> {};
template <> struct element_type<bfloat16> : std::integral_constant<int, 16> {};
template <> struct element_type<packed_byte> : std::integral_constant<int, 17> {}; // 17 to 26

inline bool same_element(int wanted, int dtype) {
    return wanted == dtype || (wanted == element_type<packed_byte>::value && dtype > 16);
}

inline std::size_t bits_of(int dtype) {
    static constexpr unsigned char bits[] = {0, 32, 8, 8, 16, 16, 32, 64, 8 * sizeof(onnxc_string), 8, 16, 64, 32, 64,
                                             64, 128, 16, 8, 8, 8, 8, 4, 4, 4, 8, 2, 2};
    return dtype > 0 && dtype < static_cast<int>(sizeof bits) ? bits[dtype] : 8;
}
inline std::size_t bytes_of(int dtype, std::size_t count) { return (count * bits_of(dtype) + 7) / 8; }

// ---- Memory
// Aligned memory that is not initialised.
class workspace {
public:
    workspace() = default;
    workspace(std::size_t size, std::size_t alignment = 64) : size_(size), alignment_(alignment ? alignment : 1) {
        if (size) data_ = ::operator new(size, std::align_val_t(alignment_));
    }
    workspace(workspace &&other) noexcept { swap(other); }
    workspace &operator=(workspace &&other) noexcept { return swap(other), *this; }
    workspace(const workspace &) = delete;
    workspace &operator=(const workspace &) = delete;
    ~workspace() {
        if (data_) ::operator delete(data_, std::align_val_t(alignment_));
    }
    void *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    // Contents are lost if it grows.
    void reserve(std::size_t size) {
        if (size > size_) *this = workspace(size, alignment_);
    }
    void swap(workspace &other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(alignment_, other.alignment_);
    }

private:
    void *data_ = nullptr;
    std::size_t size_ = 0, alignment_ = 64;
};

// ---- Models with a header of their own
namespace detail {
template <class F> struct run_of;
template <class In, class Out> struct run_of<int (*)(const In *, Out *, void *, std::size_t)> {
    using in = In;
    using out = Out;
    using context = void;
};
template <class Context, class In, class Out>
struct run_of<int (*)(const Context *, const In *, Out *, void *, std::size_t)> {
    using in = In;
    using out = Out;
    using context = Context;
};
template <class Out, class = void> struct message_of {
    static const char *get(const Out &) { return nullptr; }
};
template <class Out> struct message_of<Out, std::void_t<decltype(std::declval<Out>().message)>> {
    static const char *get(const Out &out) { return out.message; }
};
// Models without file and threads may be linked without the runtime, whose text this would need.
inline error_info typed_error(int status, const char *message) {
    return {status, message && *message ? std::string(message) : "the run failed with status " + std::to_string(status)};
}
} // namespace detail

// NAME_run with a workspace of its own: one object per thread. Models with a context (NAME_open) get it from `opened`.
template <auto Run> class typed {
    using facts = detail::run_of<decltype(Run)>;

public:
    using in = typename facts::in;
    using out = typename facts::out;
    using context = typename facts::context;

    // bytes: NAME_workspace_bytes(...), for the sizes of the runs that follow; alignment: NAME_WORKSPACE_ALIGN.
    static typed sized(std::size_t bytes, std::size_t alignment = 64) { return typed(workspace(bytes, alignment), nullptr); }
    template <class C, class = decltype(std::declval<const C &>().get())>
    static typed sized(const C &opened, std::size_t bytes, std::size_t alignment = 64) {
        return typed(workspace(bytes, alignment), opened.get());
    }
    // For runs with larger sizes.
    void reserve(std::size_t bytes) { memory_.reserve(bytes); }

    result<void> run(const in &i, out &o) {
        int status;
        if constexpr (std::is_void_v<context>) status = Run(&i, &o, memory_.data(), memory_.size());
        else status = Run(static_cast<const context *>(context_), &i, &o, memory_.data(), memory_.size());
        if (!status) return {};
        return detail::typed_error(status, detail::message_of<out>::get(o));
    }

private:
    typed(workspace memory, const void *of) : memory_(std::move(memory)), context_(of) {}
    workspace memory_;
    const void *context_;
};

// What NAME_open returns, closed by NAME_close. Any number of threads may use it.
template <auto Open, auto Close> class opened {
    template <class F> struct context_of;
    template <class Options, class C> struct context_of<int (*)(const Options *, C **)> {
        using type = C;
        using options = Options;
    };
    using types = context_of<decltype(Open)>;
    struct closer {
        void operator()(typename types::type *c) const { Close(c); }
    };

public:
    using context = typename types::type;
    using options = typename types::options;
    // options.message is used for the error.
    static result<opened> open(options o = {}) {
        char text[512] = "";
        context *c = nullptr;
        o.size = sizeof o;
        o.message = text;
        o.message_size = sizeof text;
        int status = Open(&o, &c);
        if (status) return detail::typed_error(status, text);
        return opened(c);
    }
    const context *get() const noexcept { return context_.get(); }

private:
    explicit opened(context *c) : context_(c) {}
    std::unique_ptr<context, closer> context_;
};

// ---- Descriptors
// An input or output.
class tensor_info {
public:
    tensor_info(const onnxc_descriptor *d, const onnxc_tensor_info *t) : d_(d), t_(t) {}
    std::string_view name() const { return onnxc_text(d_, t_->name); }
    std::string_view identifier() const { return onnxc_text(d_, t_->identifier); }
    std::string_view doc() const { return onnxc_text(d_, t_->doc); }
    std::string_view type() const { return onnxc_text(d_, t_->type); } // "float[N, 3]", "sequence(float[...])"
    int dtype() const { return t_->dtype; }
    std::size_t rank() const { return t_->rank; }
    bool is_value() const { return t_->kind != 0; } // a sequence, optional or map, or a tensor of any rank
    bool data_sized() const { return t_->data_sized != 0; }
    bool has_default() const { return t_->has_default != 0; }
    int64_t dim(std::size_t axis) const { return onnxc_dims(d_, t_)[axis].value; } // -1: not constant
    std::string_view dim_text(std::size_t axis) const { return onnxc_text(d_, onnxc_dims(d_, t_)[axis].text); }
    shape dims() const {
        shape all;
        for (std::size_t i = 0; i < rank(); i++) all.push_back(dim(i));
        return all;
    }
    const onnxc_tensor_info &raw() const { return *t_; }

private:
    const onnxc_descriptor *d_;
    const onnxc_tensor_info *t_;
};

// A descriptor and functions, of a header (NAME_MODEL), a library, or the compiler. Does not own them.
class model {
public:
    model() : m_() {}
    model(const onnxc_model &m) : m_(m) {}
    const onnxc_model &raw() const { return m_; }
    const onnxc_descriptor &descriptor() const { return *static_cast<const onnxc_descriptor *>(m_.descriptor); }
    // Members of the descriptor but the first two are valid for this version only.
    result<void> check_interface() const {
        if (!m_.descriptor || std::memcmp(descriptor().magic, "onnxc-m", 8)) return detail::wrong_use("not the descriptor of a model");
        if (descriptor().interface_version == ONNXC_INTERFACE) return {};
        return detail::wrong_use("the model has interface version " + std::to_string(descriptor().interface_version) +
                                 ", but this program needs " + std::to_string(ONNXC_INTERFACE));
    }
    std::string_view name() const { return text(descriptor().name); }
    std::string_view graph_name() const { return text(descriptor().graph_name); }
    std::string_view doc() const { return text(descriptor().doc); }
    std::string_view producer() const { return text(descriptor().producer); }
    std::string_view compiler_version() const { return text(descriptor().version); }
    std::string_view target() const { return text(descriptor().target); }
    std::size_t input_count() const { return descriptor().ninputs; }
    std::size_t output_count() const { return descriptor().noutputs; }
    tensor_info input(std::size_t i) const { return {&descriptor(), onnxc_inputs(&descriptor()) + i}; }
    tensor_info output(std::size_t i) const { return {&descriptor(), onnxc_outputs(&descriptor()) + i}; }
    std::vector<std::pair<std::string_view, std::string_view>> metadata() const {
        const onnxc_descriptor &d = descriptor();
        const char *base = reinterpret_cast<const char *>(&d);
        std::vector<std::pair<std::string_view, std::string_view>> all;
        for (uint32_t i = 0; i < d.nmetadata; i++) {
            uint32_t pair[2];
            std::memcpy(pair, base + d.metadata + i * sizeof pair, sizeof pair);
            all.emplace_back(base + pair[0], base + pair[1]);
        }
        return all;
    }

private:
    std::string_view text(uint32_t at) const { return onnxc_text(&descriptor(), at); }
    onnxc_model m_;
};

// A shared library compiled by onnxc (-o NAME.so).
class library {
    struct closer {
        void operator()(onnxc_library *l) const { onnxc_library_close(l); }
    };

public:
    // name: of one of several models.
    static result<library> open(const std::string &path, const char *name = nullptr) {
        const char *message = nullptr;
        // dlopen searches names without a slash elsewhere
        const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
        onnxc_library *l = onnxc_library_open(file.c_str(), name, &message);
        if (!l) return detail::wrong_use(message ? message : "cannot open '" + path + "'");
        return library(l);
    }
#ifndef ONNXC_NO_EXCEPTIONS
    explicit library(const std::string &path, const char *name = nullptr) : library(open(path, name).value()) {}
#endif
    onnxc::model model() const { return onnxc_library_model(library_.get()); }

private:
    explicit library(onnxc_library *l) : library_(l) {}
    std::unique_ptr<onnxc_library, closer> library_;
};

// Where NAME_open finds weights and GPU.
struct open_options {
    std::string weights; // path of the weights file; "": the one given when compiling
    span<const char> data;
    int device = 0; // -1: the CPU
    void *stream = nullptr;
    bool no_graphs = false;
};

// ---- Any model
// Inputs by name or index, a run, outputs. One object per thread; sessions of the same model share nothing.
// Inputs are not copied: their memory must live until the run. Outputs belong to the session until its next run.
class session {
public:
    static result<session> open(model m, const open_options &options = {}) { return opened_session(m, nullptr, options); }
    // Keeps the library, or another owner of the model (onnxc::loaded), alive.
    template <class Owner> static result<session> open(Owner &&owner, const open_options &options = {}) {
        auto kept = std::make_shared<std::decay_t<Owner>>(std::forward<Owner>(owner));
        return opened_session(kept->model(), kept, options);
    }
#ifndef ONNXC_NO_EXCEPTIONS
    explicit session(onnxc::model m, const open_options &options = {}) : session(open(m, options).value()) {}
    template <class Owner, class = decltype(std::declval<Owner &>().model())>
    explicit session(Owner &&owner, const open_options &options = {}) : session(open(std::forward<Owner>(owner), options).value()) {}
#endif
    const onnxc::model &info() const { return model_; }

    // ---- Inputs. Memory of a state (--state) is written to: a T that is not const.
    template <class T> result<void> input(std::size_t i, const view<T> &v) {
        using element = std::remove_const_t<T>;
        if (i >= inputs_.size()) return detail::wrong_use("the model has " + std::to_string(inputs_.size()) + " inputs");
        return set_input(i, element_type<element>::value, v.dims(), const_cast<element *>(v.data()));
    }
    template <class T> result<void> input(std::string_view name, const view<T> &v) {
        int i = find(name, true);
        if (i < 0) return no_such("input", name);
        return input(static_cast<std::size_t>(i), v);
    }
    template <class T> result<void> input(std::string_view name, shape dims, T *data) { return input(name, view<T>(std::move(dims), data)); }
    // Bytes of any element type.
    result<void> input_bytes(std::string_view name, const shape &dims, const void *data) {
        int i = find(name, true);
        if (i < 0) return no_such("input", name);
        const auto at = static_cast<std::size_t>(i);
        return set_input(at, model_.input(at).dtype(), dims, const_cast<void *>(data));
    }
    // A sequence, optional or map, or a tensor of any rank.
    result<void> input(std::string_view name, const onnxc_value &value) {
        int i = find(name, true);
        if (i < 0) return no_such("input", name);
        if (!model_.input(static_cast<std::size_t>(i)).is_value()) return detail::wrong_use("input '" + std::string(name) + "' is a tensor");
        inputs_[static_cast<std::size_t>(i)] = {const_cast<onnxc_value *>(&value), {}};
        return {};
    }

    // ---- Running
    result<void> run() {
        free_values();
        for (std::size_t i = 0; i < inputs_.size(); i++)
            if (!inputs_[i].data && !model_.input(i).has_default() && (model_.input(i).is_value() || count_of(inputs_[i].dims)))
                return detail::wrong_use("input '" + std::string(model_.input(i).name()) + "' is missing");
        fill_dims();
        const int64_t bytes = model_.raw().workspace(dims_.data());
        memory_.reserve(bytes > 0 ? static_cast<std::size_t>(bytes) : 0); // a run with wrong sizes says what is wrong
        int status = ONNXC_TOO_SMALL;
        const char *message = nullptr;
        // Sizes of one output may depend on those of another.
        for (std::size_t tries = outputs_.size() + 3; tries && status == ONNXC_TOO_SMALL; tries--) {
            status = run_once(bytes, &message);
            if (status == ONNXC_TOO_SMALL) grow_outputs();
        }
        if (status) return detail::of_status(status, message);
        ran_ = true;
        return {};
    }

    // ---- Outputs of the last run
    template <class T> result<view<const T>> output(std::size_t i) const {
        if (i >= outputs_.size()) return detail::wrong_use("the model has " + std::to_string(outputs_.size()) + " outputs");
        const tensor_info t = model_.output(i);
        if (!ran_) return detail::wrong_use("there was no successful run yet");
        if (t.is_value() || !same_element(element_type<T>::value, t.dtype()))
            return detail::wrong_use("output '" + std::string(t.name()) + "' is " + std::string(t.type()));
        const auto *data = static_cast<const T *>(t.raw().state ? inputs_[t.raw().state - 1].data : outputs_[i].data());
        const shape dims = output_dims(i);
        return view<const T>(dims, span<const T>(data, bytes_of(t.dtype(), count_of(dims)) / sizeof(T)));
    }
    template <class T> result<view<const T>> output(std::string_view name) const {
        int i = find(name, false);
        if (i < 0) return no_such("output", name);
        return output<T>(static_cast<std::size_t>(i));
    }
    // A sequence, optional or map, or a tensor of any rank. Valid until the next run.
    result<const onnxc_value *> output_value(std::string_view name) const {
        int i = find(name, false);
        if (i < 0) return no_such("output", name);
        const auto at = static_cast<std::size_t>(i);
        if (!model_.output(at).is_value()) return detail::wrong_use("output '" + std::string(name) + "' is a tensor");
        return static_cast<const onnxc_value *>(outputs_[at].data());
    }
    shape output_dims(std::size_t i) const {
        const onnxc_tensor_info &t = model_.output(i).raw();
        return {dims_.begin() + t.first_dim, dims_.begin() + t.first_dim + t.rank};
    }

    session(session &&) = default;
    session &operator=(session &&other) noexcept {
        free_values();
        model_ = other.model_;
        owner_.swap(other.owner_);
        inputs_.swap(other.inputs_);
        outputs_.swap(other.outputs_);
        dims_.swap(other.dims_);
        capacity_.swap(other.capacity_);
        memory_.swap(other.memory_);
        context_.swap(other.context_);
        std::swap(ran_, other.ran_);
        return *this;
    }
    ~session() { free_values(); }

private:
    struct bound {
        void *data = nullptr;
        shape dims;
    };
    struct closer {
        void (*close)(onnxc_context *);
        void operator()(onnxc_context *c) const { close(c); }
    };

    session(onnxc::model m, std::shared_ptr<void> owner)
        : model_(m), owner_(std::move(owner)), inputs_(m.input_count()), dims_(m.descriptor().ndims + 1),
          capacity_(m.output_count() + 1), memory_(0, m.descriptor().workspace_align) {
        for (std::size_t i = 0; i < inputs_.size(); i++) inputs_[i].dims = m.input(i).dims();
        for (std::size_t i = 0; i < m.output_count(); i++) {
            const tensor_info t = m.output(i);
            std::size_t n = t.is_value() ? 1 : 0;
            if (!t.is_value() && count_is_constant(t)) n = count_of(t.dims());
            outputs_.emplace_back();
            size_output(i, n);
        }
    }

    static bool count_is_constant(const tensor_info &t) {
        for (int64_t d : t.dims())
            if (d < 0) return false;
        return true;
    }

    static result<session> opened_session(onnxc::model m, std::shared_ptr<void> owner, const open_options &o) {
        if (auto fits = m.check_interface(); !fits) return fits.error();
        session s(m, std::move(owner));
        if (m.raw().open) {
            char text[512] = "";
            onnxc_context *context = nullptr;
            onnxc_options raw = {};
            raw.size = sizeof raw;
            raw.weights = o.weights.empty() ? nullptr : o.weights.c_str();
            raw.data = o.data.data();
            raw.data_size = o.data.size();
            raw.device = o.device;
            raw.stream = o.stream;
            raw.no_graphs = o.no_graphs;
            raw.message = text;
            raw.message_size = sizeof text;
            if (int status = m.raw().open(&raw, &context)) return detail::of_status(status, text);
            s.context_ = std::unique_ptr<onnxc_context, closer>(context, closer{m.raw().close});
        }
        return result<session>(std::move(s));
    }

    int find(std::string_view name, bool input) const {
        const std::size_t n = input ? model_.input_count() : model_.output_count();
        for (std::size_t i = 0; i < n; i++)
            if ((input ? model_.input(i) : model_.output(i)).name() == name) return static_cast<int>(i);
        return -1;
    }
    error_info no_such(const char *what, std::string_view name) const {
        std::string known;
        const bool input = *what == 'i';
        const std::size_t n = input ? model_.input_count() : model_.output_count();
        for (std::size_t i = 0; i < n; i++)
            known += (i ? ", '" : "'") + std::string((input ? model_.input(i) : model_.output(i)).name()) + "'";
        return detail::wrong_use("the model has no " + std::string(what) + " '" + std::string(name) + "', only " + known);
    }
    result<void> set_input(std::size_t i, int dtype, const shape &dims, void *data) {
        const tensor_info t = model_.input(i);
        const std::string what = "input '" + std::string(t.name()) + "' (" + std::string(t.type()) + ")";
        if (t.is_value()) return detail::wrong_use(what + " is not a tensor");
        if (!same_element(dtype, t.dtype())) return detail::wrong_use(what + " has another element type");
        if (dims.size() != t.rank()) return detail::wrong_use(what + ": a tensor of shape " + to_string(dims) + " has another rank");
        inputs_[i] = {data, dims};
        return {};
    }
    void fill_dims() {
        for (std::size_t i = 0; i < inputs_.size(); i++) {
            const onnxc_tensor_info &t = model_.input(i).raw();
            for (std::size_t j = 0; j < inputs_[i].dims.size() && j < t.rank; j++) dims_[t.first_dim + j] = inputs_[i].dims[j];
        }
    }
    int run_once(int64_t bytes, const char **message) {
        std::vector<void *> data;
        for (const bound &b : inputs_) data.push_back(b.data);
        for (workspace &w : outputs_) data.push_back(w.data());
        if (context_) data.push_back(context_.get());
        data.push_back(nullptr); // of a hook
        *message = nullptr;
        return model_.raw().run(data.data(), dims_.data(), capacity_.data(), memory_.data(),
                                bytes > 0 ? static_cast<std::size_t>(bytes) : 0, message);
    }
    void size_output(std::size_t i, std::size_t count) {
        const tensor_info t = model_.output(i);
        const std::size_t bytes = t.is_value() ? sizeof(onnxc_value) : bytes_of(t.dtype(), count);
        outputs_[i] = workspace(bytes ? bytes : 1);
        std::memset(outputs_[i].data(), 0, outputs_[i].size());
        capacity_[i] = static_cast<int64_t>(count);
    }
    void grow_outputs() {
        free_values();
        for (std::size_t i = 0; i < outputs_.size(); i++) {
            const tensor_info t = model_.output(i);
            const std::size_t needed = t.is_value() ? 1 : count_of(output_dims(i));
            if (static_cast<int64_t>(needed) > capacity_[i]) size_output(i, needed);
        }
    }
    // The caller owns strings and values that a model returns.
    void free_values() {
        for (std::size_t i = 0; i < outputs_.size(); i++) {
            const tensor_info t = model_.output(i);
            if (!outputs_[i].data() || !outputs_[i].size()) continue;
            if (t.is_value()) onnxc_value_free(static_cast<onnxc_value *>(outputs_[i].data()));
            else if (t.dtype() == element_type<onnxc_string>::value && capacity_[i])
                std::free(const_cast<char *>(static_cast<onnxc_string *>(outputs_[i].data())->data));
            else continue;
            std::memset(outputs_[i].data(), 0, outputs_[i].size());
        }
        ran_ = false;
    }

    onnxc::model model_;
    std::shared_ptr<void> owner_;
    std::vector<bound> inputs_;
    std::vector<workspace> outputs_;
    std::vector<int64_t> dims_, capacity_;
    workspace memory_;
    std::unique_ptr<onnxc_context, closer> context_{nullptr, closer{nullptr}};
    bool ran_ = false;
};

// The text of a string element.
inline std::string_view text(const onnxc_string &s) { return {s.data ? s.data : "", s.size}; }

// ---- Threads: the setting for models that this thread calls, for the life of the object.
class use_threads {
public:
    explicit use_threads(int count) : threads_{count, nullptr, nullptr}, before_(onnxc_use_threads(&threads_)) {}
    explicit use_threads(const onnxc_threads &t) : threads_(t), before_(onnxc_use_threads(&threads_)) {}
    ~use_threads() { onnxc_use_threads(before_); }
    use_threads(const use_threads &) = delete;
    use_threads &operator=(const use_threads &) = delete;

private:
    onnxc_threads threads_;
    const onnxc_threads *before_;
};

} // namespace onnxc
#endif
