// How a long computation hears that it is to stop, and says how far it is.
#pragma once

#include <chrono>
#include <functional>

namespace diffdag {

class Watch {
  public:
    // `ask` is called some times a second with the share done; it throws to end the computation.
    explicit Watch(std::function<void(double)> ask) : ask_(std::move(ask)), last_(Clock::now()) {}

    // Called often: cheap.
    void look(double share) {
        if (++calls_ % CALLS != 0) return;
        const auto now = Clock::now();
        if (now - last_ < EVERY) return;
        last_ = now;
        ask_(share);
    }

  private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds EVERY{100};
    static constexpr unsigned CALLS = 16;
    std::function<void(double)> ask_;
    Clock::time_point last_;
    unsigned calls_ = 0;
};

}  // namespace diffdag
