// What the compiled rooms take: arrays that somebody else owns. array_caster.h makes them of those of Python.
#pragma once

#include <array>
#include <cstddef>
#include <stdexcept>

namespace diffdag {

// Where an array begins, and its shape. Its numbers follow each other without gaps, the last index first.
template <typename Number, std::size_t dimensions> struct Array {
    Number *data = nullptr;
    std::array<std::size_t, dimensions> shape{};
};
template <std::size_t dimensions> using Numbers = Array<const double, dimensions>;

// Refuse arguments: a ValueError.
inline void require(bool holds, const char *what) {
    if (!holds) throw std::invalid_argument(what);
}

}  // namespace diffdag
