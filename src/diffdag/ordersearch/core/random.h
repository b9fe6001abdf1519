// Random numbers of our own: the i-th is a function of the seed and of i alone, on every platform (SplitMix64,
// Steele, Lea and Flood 2014).
#pragma once

#include <cstdint>
#include <utility>

namespace diffdag {

class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(mix(seed)) {}

    std::uint64_t bits() { return mix(state_ += GOLDEN); }
    // Uniform between 0 and 1.
    double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
    // One of 0 to n - 1, for n below 2^32; their chances differ by less than n / 2^32.
    std::size_t below(std::size_t n) { return static_cast<std::size_t>((bits() >> 32) * n >> 32); }

    template <typename Numbers> void shuffle(Numbers &numbers) {
        for (std::size_t n = numbers.size(); n > 1; --n) std::swap(numbers[n - 1], numbers[below(n)]);
    }

  private:
    static constexpr std::uint64_t GOLDEN = 0x9e3779b97f4a7c15;
    std::uint64_t state_;

    static std::uint64_t mix(std::uint64_t x) {
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
        x = (x ^ x >> 27) * 0x94d049bb133111eb;
        return x ^ x >> 31;
    }
};

}  // namespace diffdag
