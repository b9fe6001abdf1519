// The harness without a fuzzer, for compilers that have none: COUNT inputs of random bytes from SEED.
#include <cstdlib>
#include <vector>

#include "../../src/diffdag/ordersearch/core/random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

int main(int count, char **words) {
    if (count != 3) return 2;
    diffdag::Random random(std::strtoull(words[1], nullptr, 10));
    for (std::size_t left = std::strtoull(words[2], nullptr, 10); left > 0; --left) {
        std::vector<std::uint8_t> bytes(random.below(512));
        for (std::uint8_t &byte : bytes) byte = static_cast<std::uint8_t>(random.bits() >> 56);
        LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
    return 0;
}
