// onnxc_compiler.hpp: the compiler in C++17, over libonnxc (-lonnxc -lonnxc-rt).
//
//     onnxc::job job = onnxc::job::of_file("mnist.onnx");
//     job.options = {"-O3"};
//     onnxc::session s(onnxc::load(job).value());
//
// Several threads may compile at the same time, each with its own job.
#ifndef ONNXC_COMPILER_HPP
#define ONNXC_COMPILER_HPP
#include "onnxc.hpp"
#include <functional>
#include <onnxc_compiler.h>

namespace onnxc {

struct job {
    std::string model;         // path; with `data`, the name in messages
    span<const char> data;     // the model in memory; empty: read the file
    std::string data_folder;   // folder of external data, for a model in memory
    std::vector<std::string> options; // as on the command line: "-O3", "--target=aarch64-linux-gnu", "-o", "x.o"
    std::size_t memory_limit = 0;     // bytes; 0: none
    std::function<void(const onnxc_message &)> on_message; // remarks, warnings and errors
    std::function<void(std::string_view pass, std::string_view text)> on_print;
    std::function<bool()> cancelled; // called between passes; true stops the compilation

    static job of_file(std::string path, std::vector<std::string> options = {}) {
        job j;
        j.model = std::move(path);
        j.options = std::move(options);
        return j;
    }
    static job of_memory(span<const char> data, std::vector<std::string> options = {}) {
        job j;
        j.data = data;
        j.options = std::move(options);
        return j;
    }
};

// The main output of a compilation.
class buffer {
public:
    buffer() = default;
    buffer(void *data, std::size_t size) : data_(data, onnxc_free), size_(size) {}
    const char *data() const noexcept { return static_cast<const char *>(data_.get()); }
    std::size_t size() const noexcept { return size_; }
    std::string_view text() const noexcept { return {data(), size_}; }

private:
    std::unique_ptr<void, void (*)(void *)> data_{nullptr, onnxc_free};
    std::size_t size_ = 0;
};

// A model compiled into this process.
class loaded {
public:
    explicit loaded(onnxc_loaded *l) : loaded_(l, onnxc_unload) {}
    onnxc::model model() const { return onnxc_loaded_model(loaded_.get()); }

private:
    std::unique_ptr<onnxc_loaded, void (*)(onnxc_loaded *)> loaded_;
};

namespace detail {
// The C struct of a job, and the errors that it reports.
class running_job {
public:
    explicit running_job(const job &j) : job_(j), c_() {
        for (const std::string &o : j.options) options_.push_back(o.c_str());
        c_.size = sizeof c_;
        c_.model = j.model.empty() ? nullptr : j.model.c_str();
        c_.data = j.data.data();
        c_.data_size = j.data.size();
        c_.data_folder = j.data_folder.empty() ? nullptr : j.data_folder.c_str();
        c_.options = options_.data();
        c_.noptions = static_cast<int>(options_.size());
        c_.memory_limit = j.memory_limit;
        c_.user = this;
        c_.message = [](void *user, const onnxc_message *m) { static_cast<running_job *>(user)->add(*m); };
        if (j.on_print)
            c_.print = [](void *user, const char *pass, const char *text) {
                static_cast<running_job *>(user)->job_.on_print(pass ? pass : "", text ? text : "");
            };
        if (j.cancelled) c_.cancelled = [](void *user) { return static_cast<running_job *>(user)->job_.cancelled() ? 1 : 0; };
    }
    running_job(const running_job &) = delete;
    running_job &operator=(const running_job &) = delete;
    const onnxc_job *c() const { return &c_; }
    error_info failed(onnxc_result r) const { return {r, errors_.empty() ? (r == ONNXC_STOPPED ? "the compilation was stopped" : "the compilation failed") : errors_}; }

private:
    void add(const onnxc_message &m) {
        if (m.severity == ONNXC_ERROR && m.full) errors_ += (errors_.empty() ? "" : "\n") + std::string(m.full);
        if (job_.on_message) job_.on_message(m);
    }
    const job &job_;
    onnxc_job c_;
    std::vector<const char *> options_;
    std::string errors_;
};
} // namespace detail

// Writes the outputs that the options ask for.
inline result<void> compile(const job &j) {
    detail::running_job running(j);
    if (onnxc_result r = onnxc_compile(running.c())) return running.failed(r);
    return {};
}

// The main output in memory.
inline result<buffer> compile_to_memory(const job &j) {
    detail::running_job running(j);
    void *data = nullptr;
    std::size_t size = 0;
    if (onnxc_result r = onnxc_compile_to_memory(running.c(), &data, &size)) return running.failed(r);
    return buffer(data, size);
}

// Loads the model into this process, compiled for this machine's CPU unless the options say otherwise.
inline result<loaded> load(const job &j) {
    detail::running_job running(j);
    onnxc_loaded *l = nullptr;
    if (onnxc_result r = onnxc_load(running.c(), &l)) return running.failed(r);
    return loaded(l);
}

inline std::string_view compiler_version() { return onnxc_compiler_version(); }

} // namespace onnxc
#endif
