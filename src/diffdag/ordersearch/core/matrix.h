// Matrices whose rows begin at cache lines, and the loops over rows that take most of the time.
//
// Every loop works element by element, or adds up in eight lanes of its own, so that it gives the same bytes on
// every processor: the compiler is told neither to reorder sums nor to fuse products with them. With g++ on
// x86-64 each loop is compiled for three generations of processors, and the loader picks one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(DIFFDAG_PORTABLE)
#define DIFFDAG_EVERY_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define DIFFDAG_EVERY_PROCESSOR
#endif

namespace diffdag {

class Matrix {
  public:
    Matrix() = default;
    Matrix(std::size_t rows, std::size_t columns)
        : stride_((columns + LINE - 1) / LINE * LINE),
          size_(rows * stride_),
          data_(static_cast<double *>(::operator new(size_ * sizeof(double), ALIGNED))) {
        for (std::size_t k = 0; k < size_; ++k) data_.get()[k] = 0.0;
    }
    double *operator[](std::size_t row) { return data_.get() + row * stride_; }
    const double *operator[](std::size_t row) const { return data_.get() + row * stride_; }
    std::size_t stride() const { return stride_; }

  private:
    static constexpr std::size_t LINE = 8;  // numbers in a cache line
    static constexpr std::align_val_t ALIGNED{64};
    struct Free {
        void operator()(double *data) const { ::operator delete(data, ALIGNED); }
    };
    std::size_t stride_ = 0, size_ = 0;
    std::unique_ptr<double, Free> data_;
};

using Vector = std::vector<double>;
using Places = std::vector<std::int64_t>;  // as wide as a double, so that both fit the same vector registers

// x, y become c x + s y, s x - c y.
void rotate(double *x, double *y, double c, double s, std::size_t n);
// out = base - x^2
void minus_square(double *out, const double *base, const double *x, std::size_t n);
// out += x^2
void add_square(double *out, const double *x, std::size_t n);
// out -= factor * x
void subtract(double *out, double factor, const double *x, std::size_t n);
// out -= the sum over the first `rows` rows of a matrix, n numbers from one on, each times its factor in `column`.
void subtract_rows(double *out, const Matrix &factors, std::size_t column, const Matrix &matrix, std::size_t rows,
                   std::size_t n, std::size_t from = 0);
// The same with one factor for each row.
void subtract_rows(double *out, const double *factors, const Matrix &matrix, std::size_t rows, std::size_t n);
double dot(const double *x, const double *y, std::size_t n);
// Whether y_k^2 > share * width_k for some k that is placed before t.
bool any_pays(const double *y, const double *width, const std::int64_t *place, std::int64_t t, double share,
              std::size_t n);
// The same for both positions after rows x, y (at t and t + 1) are rotated; variable `last` moves to t.
bool any_pays_rotated(const double *x, const double *y, const double *width, const std::int64_t *place,
                      std::int64_t t, std::int64_t last, double c, double s, double upper, double lower,
                      std::size_t n);

}  // namespace diffdag
