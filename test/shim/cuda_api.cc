// Holds runtime-lite/cuda/cuda.h against NVIDIA's cuda.h: constants, what each function takes, and, linked with
// the toolkit's stub of libcuda, the symbols' names. It only has to compile and link.
#include <cuda.h>
#include <string_view>
#include <type_traits>
extern "C" {
#include "runtime-lite/cuda/cuda.h"
}

#define X(name, theirs, value) static_assert(value == static_cast<long long>(theirs), #theirs);
CUDA_CONSTANTS(X)
#undef X

// What our handles are there.
template <class T> struct theirs_of {
    using type = T;
};
#define HANDLE(ours, theirs)                                                                                 \
    template <> struct theirs_of<ours> {                                                                     \
        using type = theirs;                                                                                 \
    };
HANDLE(cuda_stream_s, CUstream_st)
HANDLE(cuda_context_s, CUctx_st)
HANDLE(cuda_module_s, CUmod_st)
HANDLE(cuda_function_s, CUfunc_st)
HANDLE(cuda_graph_s, CUgraph_st)
HANDLE(cuda_graph_exec_s, CUgraphExec_st)

// Numbers have the same size and, but for enums, sign; pointers lead to the same, const or not.
template <class A, class B> constexpr bool same() {
    if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
        using a = std::remove_pointer_t<A>;
        using b = std::remove_pointer_t<B>;
        return std::is_const_v<a> == std::is_const_v<b> &&
               same<std::remove_const_t<a>, std::remove_const_t<b>>();
    } else if constexpr (std::is_enum_v<B>) {
        return std::is_integral_v<A> && sizeof(A) == sizeof(B);
    } else if constexpr (std::is_integral_v<A> && std::is_integral_v<B>) {
        return sizeof(A) == sizeof(B) && std::is_signed_v<A> == std::is_signed_v<B>;
    } else {
        return std::is_same_v<typename theirs_of<A>::type, B>;
    }
}

template <class F, class G> struct same_function : std::false_type {};
template <class R, class S, class... A, class... B>
struct same_function<R(A...), S(B...)> : std::bool_constant<same<R, S>() && (same<A, B>() && ...)> {};

// The header stands new names for old symbols: asking for the old name would get the old function.
#define TEXT(x) #x
#define X(name, symbol, parameters)                                                                          \
    static_assert(std::string_view(#symbol) == TEXT(symbol), #symbol " is an older symbol");                 \
    static_assert(same_function<int parameters, decltype(symbol)>::value, #symbol " takes something else");
CUDA_FUNCTIONS(X)
CUDA_GRAPH_FUNCTIONS(X)
#undef X

#define X(name, symbol, parameters) reinterpret_cast<void *>(&symbol),
void *const volatile symbols[] = {CUDA_FUNCTIONS(X) CUDA_GRAPH_FUNCTIONS(X)};
#undef X
int main() { return symbols[0] == nullptr; }
