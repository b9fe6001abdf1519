// Bytes of a fuzzer, read as what the compiled rooms take.
//
// Scatter matrices are those of random rows, of too few rows, or of numbers as they come; then some entries may become
// zero, infinite, not a number, huge, tiny or denormal, and whole rows be scaled. Shapes are right as a rule, and wrong
// by one now and then. Each array has exactly the room that its shape says, so that sanitizers see what goes beyond.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "../../src/diffdag/_base/array.h"
#include "../../src/diffdag/ordersearch/core/random.h"

namespace fuzz {

using diffdag::Array;

class Input {
  public:
    Input(const std::uint8_t *data, std::size_t size) : data_(data), size_(size) {}

    // Zeros follow the last byte.
    std::uint8_t byte() { return at_ < size_ ? data_[at_++] : 0; }
    std::size_t below(std::size_t n) { return byte() % n; }
    bool chance(std::size_t n) { return below(n) == n - 1; }  // one in n; not where bytes have run out
    template <typename Number> Number raw() {
        std::uint8_t bytes[sizeof(Number)];
        for (std::uint8_t &one : bytes) one = byte();
        Number number;
        std::memcpy(&number, bytes, sizeof number);
        return number;
    }
    std::size_t count() { return chance(32) ? raw<std::size_t>() : byte(); }

    double special() {
        using Limits = std::numeric_limits<double>;
        static constexpr double ALL[] = {0.0, -0.0, 1.0, -1.0, Limits::quiet_NaN(), Limits::infinity(),
                                         -Limits::infinity(), Limits::max(), -Limits::max(), Limits::min(),
                                         Limits::denorm_min(), -Limits::denorm_min(), 1e150, -1e150, 1e-150, 1e-9,
                                         1e9, 0.5};
        return ALL[below(std::size(ALL))];
    }
    // Most often about as large as `usual`.
    double number(double usual) {
        switch (below(8)) {
            case 6: return special();
            case 7: return raw<double>();
            default: return usual * (1 + raw<std::int16_t>() / 16384.0);
        }
    }

  private:
    const std::uint8_t *data_;
    std::size_t size_, at_ = 0;
};

// An array with exactly the room that it needs.
template <typename Number, std::size_t dimensions> class Block {
  public:
    explicit Block(std::array<std::size_t, dimensions> shape) : shape_(shape), size_(1) {
        for (const std::size_t one : shape) size_ *= one;
        data_ = std::make_unique<Number[]>(size_);
    }
    std::size_t size() const { return size_; }
    Number &operator[](std::size_t k) { return data_[k]; }
    Number *begin() { return data_.get(); }
    Number *end() { return data_.get() + size_; }
    operator Array<Number, dimensions>() const { return {data_.get(), shape_}; }
    operator Array<const Number, dimensions>() const { return {data_.get(), shape_}; }

  private:
    std::array<std::size_t, dimensions> shape_;
    std::size_t size_;
    std::unique_ptr<Number[]> data_;
};

// A shape that fits, or now and then one that does not.
template <typename... Lengths> std::array<std::size_t, sizeof...(Lengths)> shaped(Input &input, Lengths... lengths) {
    std::array<std::size_t, sizeof...(Lengths)> shape{static_cast<std::size_t>(lengths)...};
    if (input.chance(64)) {
        std::size_t &one = shape[input.below(shape.size())];
        if (input.chance(2)) ++one;
        else if (one > 0) --one;
    }
    return shape;
}

// Add the inner products of so many random rows to a matrix; columns are correlated.
inline void add_rows(double *matrix, std::size_t p, std::size_t rows, diffdag::Random &random, bool constant) {
    std::vector<double> row(p);
    for (std::size_t n = 0; n < rows; ++n) {
        for (std::size_t k = 0; k < p; ++k) {
            const double noise = random.uniform() + random.uniform() + random.uniform() - 1.5;
            row[k] = constant && k + 1 == p ? 1.0 : noise + (k > 0 ? 0.6 * row[k - 1] : 0.3);
        }
        for (std::size_t i = 0; i < p; ++i)
            for (std::size_t k = 0; k < p; ++k) matrix[i * p + k] += row[i] * row[k];
    }
}

// Spoil some entries of a matrix or table, each with the entry across if it has one.
inline void spoil(Input &input, double *numbers, std::size_t height, std::size_t width) {
    if (height == 0 || width == 0) return;
    for (std::size_t left = input.chance(2) ? input.below(4) : 0; left > 0; --left) {
        const std::size_t i = input.below(height), k = input.below(width);
        switch (input.below(4)) {
            case 0: numbers[i * width + k] = input.number(1.0); break;
            case 1: {  // a variable in other units, or one that is another's multiple
                const double factor = input.number(1.0);
                for (std::size_t l = 0; l < width; ++l) numbers[i * width + l] *= factor;
                if (height == width)
                    for (std::size_t l = 0; l < height; ++l) numbers[l * width + i] *= factor;
                break;
            }
            case 2: {
                const double value = input.number(numbers[i * width + k]);
                numbers[i * width + k] = value;
                if (height == width) numbers[k * width + i] = value;
                break;
            }
            default: {
                const double factor = input.special();
                for (std::size_t l = 0; l < height * width; ++l) numbers[l] *= factor;
            }
        }
    }
}

// Knowledge or marks: nothing, everything, or as it comes. Of an order what is known may be contradictory.
inline void mark(Input &input, bool *marks, std::size_t size) {
    const std::size_t kind = input.below(4);
    for (std::size_t k = 0; k < size; ++k) marks[k] = kind == 1 || (kind > 1 && input.chance(kind == 2 ? 4 : 2));
}

}  // namespace fuzz
