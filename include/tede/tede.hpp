/* tede/tede.hpp: C++17 over the C API: references that drop themselves, operators, errors as exceptions.
 *
 *     tede::tensor x = td_randn(2, tede::ints({2, 3}), TD_F32, TD_DEVICE_NONE);   // takes over the new reference
 *     tede::tensor y = (x * x + 1.0).call(td_exp);                                // call: any operator of one tensor
 *     tede::tensor z = td_softmax(y, -1);                                         // converts to td_tensor * where C wants one
 *
 * A tensor made from a C result checks it: NULL throws tede::error with the thread's message. There is nothing to link but
 * libtede. */
#ifndef TEDE_TEDE_HPP
#define TEDE_TEDE_HPP
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tede/tede.h>

namespace tede {

/* What a failing call left: the message, and which of Python's exceptions PyTorch would raise. */
class error : public std::runtime_error {
public:
    error() : std::runtime_error(td_error_message()), code_(td_error_code()) { td_error_clear(); }
    td_code code() const noexcept { return code_; }

private:
    td_code code_;
};

/* Throw if a call that returns 0 or -1 failed. */
inline void check(int status)
{
    if (status)
        throw error();
}

/* A counted reference to a tensor. Copies share the tensor, as in Python; `x.call(td_clone...)` copies its elements. */
class tensor {
public:
    tensor() noexcept = default;
    /* Takes over a new reference, as C functions return it. Implicit, so that `tensor y = td_exp(x)` reads as it should. */
    tensor(td_tensor *owned) : x_(owned)
    {
        if (!owned)
            throw error();
    }
    tensor(const tensor &other) noexcept : x_(td_tensor_retain(other.x_)) {}
    tensor(tensor &&other) noexcept : x_(std::exchange(other.x_, nullptr)) {}
    tensor &operator=(tensor other) noexcept
    {
        std::swap(x_, other.x_);
        return *this;
    }
    ~tensor() { td_tensor_release(x_); }

    /* One that stays somebody else's. */
    static tensor borrow(td_tensor *lent) { return tensor(td_tensor_retain(lent)); }

    /* Lends itself to C. */
    operator td_tensor *() const noexcept { return x_; }
    explicit operator bool() const noexcept { return x_ != nullptr; }

    std::vector<std::int64_t> sizes() const { return {td_tensor_sizes(x_), td_tensor_sizes(x_) + td_tensor_ndim(x_)}; }
    std::int64_t numel() const noexcept { return td_tensor_numel(x_); }
    td_dtype dtype() const noexcept { return td_tensor_dtype(x_); }

    /* An operator of one tensor, and its further arguments. */
    template <typename Function, typename... More>
    tensor call(Function function, More... more) const
    {
        return tensor(function(x_, more...));
    }

    double item() const
    {
        td_scalar value;
        check(td_item(&value, x_));
        return td_scalar_double(value);
    }

    tensor requires_grad(bool on = true) const
    {
        check(td_set_requires_grad(x_, on));
        return *this;
    }
    void backward() const
    {
        td_tensor *root = x_;
        check(td_backward(1, &root, nullptr, false, false));
    }
    /* The accumulated gradient; an empty tensor while there is none. */
    tensor grad() const
    {
        td_tensor *lent = td_grad(x_);
        return lent ? borrow(lent) : tensor();
    }

private:
    td_tensor *x_ = nullptr;
};

/* C's (int64_t[]){2, 3}: sizes, strides and dimensions as an argument, alive until the call's semicolon. */
inline const std::int64_t *ints(std::initializer_list<std::int64_t> list) { return list.begin(); }

/* An optimizer that releases itself: `tede::optimizer adam = td_adam_new(n, parameters, &options);` */
class optimizer {
public:
    optimizer(td_optimizer *owned) : o_(owned)
    {
        if (!owned)
            throw error();
    }
    optimizer(optimizer &&other) noexcept : o_(std::exchange(other.o_, nullptr)) {}
    optimizer(const optimizer &) = delete;
    optimizer &operator=(optimizer other) noexcept
    {
        std::swap(o_, other.o_);
        return *this;
    }
    ~optimizer() { td_optimizer_release(o_); }

    void step() { check(td_optimizer_step(o_)); }
    void zero_grad() { check(td_optimizer_zero_grad(o_)); }
    operator td_optimizer *() const noexcept { return o_; }

private:
    td_optimizer *o_ = nullptr;
};

inline tensor number(double value) { return td_wrapped_number(td_float(value)); }

#define TEDE_BINARY(sign, function)                                                                     \
    inline tensor operator sign(const tensor &a, const tensor &b) { return tensor(function); }          \
    inline tensor operator sign(const tensor &a, double b) { return a sign number(b); }                 \
    inline tensor operator sign(double a, const tensor &b) { return number(a) sign b; }
TEDE_BINARY(+, td_add_tensor(a, b, td_int(1)))
TEDE_BINARY(-, td_sub_tensor(a, b, td_int(1)))
TEDE_BINARY(*, td_mul_tensor(a, b))
TEDE_BINARY(/, td_div_tensor(a, b))
#undef TEDE_BINARY
inline tensor operator-(const tensor &a) { return tensor(td_neg(a)); }

inline std::ostream &operator<<(std::ostream &out, const tensor &x)
{
    char *text = td_tensor_str(x);
    if (!text)
        throw error();
    out << text;
    td_string_free(text);
    return out;
}

} // namespace tede
#endif
