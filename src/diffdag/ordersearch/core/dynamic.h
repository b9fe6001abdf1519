// The best of all orders by dynamic programming over sets of predecessors (Silander and Myllymaki 2006).
//
// A set of variables is a number whose bits say who is in it. There are p 2^(p-1) costs; the least score of an
// order of the set S is F(S) = min over i in S of F(S - i) + cost(i | S - i).
#pragma once

#include <numeric>

#include "node.h"
#include "watch.h"

namespace diffdag {

constexpr std::size_t VISITS = 1024;  // sets visited before the view is worked out afresh

// Fill in the cost of every variable given every set of predecessors, and its change set, [set, variable]. Bit p of
// a change set says that the variances differ. Sets are visited in the order of a Gray code: each differs from the
// last by one variable.
inline void tabulate(Pair &pair, double *costs, std::int64_t *changes, Watch &watch) {
    const View &view = pair.view;
    const std::size_t p = view.p, sets = std::size_t{1} << p;
    Places order(p);
    std::iota(order.begin(), order.end(), 0);
    pair.take(order.data());
    std::size_t members = 0, t = 0;
    for (std::size_t count = 1; count <= sets; ++count) {
        watch.look(static_cast<double>(count) / static_cast<double>(sets));
        for (std::size_t position = t; position < p; ++position) {
            pair.move(position, t);
            const Cost cost = pair.full(t);
            std::int64_t changed = std::int64_t{cost.separate} << p;
            for (std::size_t u = 0; u < cost.changes; ++u) changed |= std::int64_t{1} << pair.changes()[u];
            costs[members * p + view.at(t)] = cost.value;
            changes[members * p + view.at(t)] = changed;
        }
        std::size_t changing = 0;
        while (!(count >> changing & 1)) ++changing;
        if (changing == p) break;  // all sets have been visited
        const bool leaves = members >> changing & 1;
        const auto at = static_cast<std::size_t>(view.place[changing]);
        if (leaves) --t;
        pair.move(at, t);
        if (!leaves) ++t;
        members ^= std::size_t{1} << changing;
        if (count % VISITS == 0) pair.look();
    }
}

// The least score of an order in which a precedes b wherever before[a, b]; `order` becomes such an order, and `score`
// the least score of each set.
inline double best_order(const double *costs, const bool *before, std::size_t p, std::int64_t *order, double *score) {
    const std::size_t sets = std::size_t{1} << p;
    std::fill_n(score, sets, std::numeric_limits<double>::infinity());
    std::vector<std::uint8_t> last(sets);
    std::vector<std::size_t> required(p);  // who has to come before each variable
    for (std::size_t i = 0; i < p; ++i)
        for (std::size_t k = 0; k < p; ++k)
            if (before[k * p + i]) required[i] |= std::size_t{1} << k;
    score[0] = 0.0;
    for (std::size_t members = 0; members < sets; ++members) {
        if (score[members] == std::numeric_limits<double>::infinity()) continue;
        for (std::size_t i = 0; i < p; ++i) {
            const std::size_t bit = std::size_t{1} << i;
            if ((members & bit) != 0 || (required[i] & ~members) != 0) continue;
            const double value = score[members] + costs[members * p + i];
            if (value < score[members | bit]) {
                score[members | bit] = value;
                last[members | bit] = static_cast<std::uint8_t>(i);
            }
        }
    }
    std::size_t members = sets - 1;
    for (std::size_t position = p; position-- > 0;) {
        order[position] = last[members];
        members &= ~(std::size_t{1} << last[members]);
    }
    return score[sets - 1];
}

}  // namespace diffdag
