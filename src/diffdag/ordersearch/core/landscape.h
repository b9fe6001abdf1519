// What a search over orders moves on: one or several pairs of conditions along the same order.
//
// A swap is a swap in each pair, a cost the sum of theirs.
#pragma once

#include <deque>

#include "node.h"

namespace diffdag {

// Rotations lose next to nothing; after so many swaps the views are worked out afresh all the same.
constexpr std::size_t REFRESH = 20'000;

class Landscape {
  public:
    void add(const double *first, const double *pooled, std::size_t p, const Rules &rules) {
        pairs_.emplace_back(first, pooled, p, rules);
    }

    const View &view() const { return pairs_.front().view; }
    // Whether the last variable is a constant, which precedes all others.
    bool has_constant() const { return pairs_.front().has_constant(); }

    // Take an order, and work out the views along it.
    void take(const std::int64_t *order) {
        for (Pair &pair : pairs_) pair.take(order);
        swaps_ = 0;
    }
    void refresh() {
        if (swaps_ < REFRESH) return;
        for (Pair &pair : pairs_) pair.look();
        swaps_ = 0;
    }
    // Exchange the variables at positions t and t + 1.
    void swap(std::size_t t) {
        for (Pair &pair : pairs_) pair.swap(t);
        ++swaps_;
    }
    // Bring the variable at one position to another; those between make room.
    void move(std::size_t start, std::size_t end) {
        for (std::size_t t = start; t < end; ++t) swap(t);
        for (std::size_t t = start; t > end; --t) swap(t - 1);
    }

    // Cost at position t, summed over the pairs; `visit` is shown each pair with its own.
    template <typename Visit> double cost(std::size_t t, bool careful, Visit visit) {
        double sum = 0.0;
        for (Pair &pair : pairs_) {
            const Cost own = careful ? pair.full(t) : pair.quick(t);
            sum += own.value;
            visit(pair, own);
        }
        return sum;
    }
    double cost(std::size_t t, bool careful) {
        return cost(t, careful, [](const Pair &, const Cost &) {});
    }
    bool nothing_pays_after_swap(std::size_t t) const {
        return std::all_of(pairs_.begin(), pairs_.end(),
                           [t](const Pair &pair) { return pair.nothing_pays_after_swap(t); });
    }

    // The effect of one variable on another must not change.
    void bar(const Barred &barred) {
        for (Pair &pair : pairs_) pair.bar(barred);
    }

    // What an order says, by variable: costs, changes [effect, cause], with gains on the diagonal, and whether variances
    // differ; of several pairs, in some pair. Returned is the score, without the part that is the same for all orders.
    double read(const std::int64_t *order, bool careful, double *costs, bool *changed, bool *separate) {
        const std::size_t p = view().p;
        take(order);
        std::fill_n(changed, p * p, false);
        std::fill_n(separate, p, false);
        double score = 0.0;
        for (std::size_t t = 0; t < p; ++t) {
            const std::size_t i = view().at(t);
            costs[i] = cost(t, careful, [&](const Pair &pair, const Cost &own) {
                separate[i] |= own.separate;
                changed[i * p + i] |= own.gain;
                for (std::size_t u = 0; u < own.changes; ++u)
                    changed[i * p + static_cast<std::size_t>(pair.changes()[u])] = true;
            });
            score += costs[i];
        }
        return score;
    }

    // What the score rises by, along the order taken, if an effect must not change: others may, in its place.
    double rise_without(const Barred &barred) {
        const auto t = static_cast<std::size_t>(view().place[barred.effect]);
        const double with = cost(t, true);
        bar(barred);
        const double without = cost(t, true);
        bar({});
        return without - with;
    }

  private:
    std::deque<Pair> pairs_;  // which stay where they are
    std::size_t swaps_ = 0;   // since the views were worked out
};

}  // namespace diffdag
