#include "matrix.h"

#include <algorithm>

namespace diffdag {

namespace {
constexpr std::size_t BLOCK = 64;  // candidates looked at before one asks whether to go on
constexpr std::size_t LANES = 8;
}  // namespace

DIFFDAG_EVERY_PROCESSOR
void rotate(double *__restrict x, double *__restrict y, double c, double s, std::size_t n) {
    for (std::size_t k = 0; k < n; ++k) {
        const double a = x[k], b = y[k];
        x[k] = c * a + s * b;
        y[k] = s * a - c * b;
    }
}

DIFFDAG_EVERY_PROCESSOR
void minus_square(double *__restrict out, const double *__restrict base, const double *__restrict x, std::size_t n) {
    for (std::size_t k = 0; k < n; ++k) out[k] = base[k] - x[k] * x[k];
}

DIFFDAG_EVERY_PROCESSOR
void add_square(double *__restrict out, const double *__restrict x, std::size_t n) {
    for (std::size_t k = 0; k < n; ++k) out[k] += x[k] * x[k];
}

DIFFDAG_EVERY_PROCESSOR
void subtract(double *__restrict out, double factor, const double *__restrict x, std::size_t n) {
    for (std::size_t k = 0; k < n; ++k) out[k] -= factor * x[k];
}

namespace {

DIFFDAG_EVERY_PROCESSOR
void subtract_rows(double *__restrict out, const double *__restrict factors, const double *matrix, std::size_t stride,
                   std::size_t rows, std::size_t n) {
    std::size_t s = 0;
    for (; s + 4 <= rows; s += 4) {  // four at a time, to store less often
        const double a = factors[s], b = factors[s + 1], c = factors[s + 2], d = factors[s + 3];
        const double *w = matrix + s * stride, *x = w + stride, *y = x + stride, *z = y + stride;
        for (std::size_t k = 0; k < n; ++k) out[k] -= (a * w[k] + b * x[k]) + (c * y[k] + d * z[k]);
    }
    for (; s < rows; ++s) {
        const double a = factors[s];
        const double *w = matrix + s * stride;
        for (std::size_t k = 0; k < n; ++k) out[k] -= a * w[k];
    }
}

}  // namespace

void subtract_rows(double *out, const double *factors, const Matrix &matrix, std::size_t rows, std::size_t n) {
    subtract_rows(out, factors, matrix[0], matrix.stride(), rows, n);
}

void subtract_rows(double *out, const Matrix &factors, std::size_t column, const Matrix &matrix, std::size_t rows,
                   std::size_t n, std::size_t from) {
    double some[BLOCK];
    for (std::size_t start = 0; start < rows; start += BLOCK) {
        const std::size_t count = std::min(BLOCK, rows - start);
        for (std::size_t s = 0; s < count; ++s) some[s] = factors[start + s][column];
        subtract_rows(out, some, matrix[start] + from, matrix.stride(), count, n);
    }
}

DIFFDAG_EVERY_PROCESSOR
double dot(const double *__restrict x, const double *__restrict y, std::size_t n) {
    double lanes[LANES] = {};
    std::size_t k = 0;
    for (; k + LANES <= n; k += LANES)
        for (std::size_t l = 0; l < LANES; ++l) lanes[l] += x[k + l] * y[k + l];
    double sum = ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
    for (; k < n; ++k) sum += x[k] * y[k];
    return sum;
}

DIFFDAG_EVERY_PROCESSOR
bool any_pays(const double *__restrict y, const double *__restrict width, const std::int64_t *__restrict place,
              std::int64_t t, double share, std::size_t n) {
    for (std::size_t start = 0; start < n; start += BLOCK) {
        const std::size_t end = std::min(n, start + BLOCK);
        std::int64_t count = 0;
        for (std::size_t k = start; k < end; ++k) count += (place[k] < t) & (y[k] * y[k] > share * width[k]);
        if (count > 0) return true;
    }
    return false;
}

DIFFDAG_EVERY_PROCESSOR
bool any_pays_rotated(const double *__restrict x, const double *__restrict y, const double *__restrict width,
                      const std::int64_t *__restrict place, std::int64_t t, std::int64_t last, double c, double s,
                      double upper, double lower, std::size_t n) {
    for (std::size_t start = 0; start < n; start += BLOCK) {
        const std::size_t end = std::min(n, start + BLOCK);
        std::int64_t count = 0;
        for (std::size_t k = start; k < end; ++k) {
            const double over = c * x[k] + s * y[k], under = s * x[k] - c * y[k];
            const bool before = place[k] < t;
            const bool at_upper = over * over > upper * width[k];
            const bool at_lower = under * under > lower * (width[k] - over * over);
            count += (before & (at_upper | at_lower)) | ((static_cast<std::int64_t>(k) == last) & at_lower);
        }
        if (count > 0) return true;
    }
    return false;
}

}  // namespace diffdag
