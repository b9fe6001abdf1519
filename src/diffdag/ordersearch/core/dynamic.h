// The best of all orders by dynamic programming over sets of predecessors (Silander and Myllymaki 2006).
//
// A set of variables is a number whose bits say who is in it. There are p 2^(p-1) costs; the least score of an
// order of the set S is F(S) = min over i in S of F(S - i) + cost(i | S - i).
#pragma once

#include <numeric>

#include "landscape.h"
#include "watch.h"

namespace diffdag {

// Visit every set of the variables at positions `first` to `first + width - 1`, in the order of a Gray code: each set
// differs from the last by one variable. Its members stand before the others, and each of these is put right behind
// them in turn; `visit` is told the set, the variable and its position. Variables are known by their number among
// those visited, which is also their bit in a set.
template <typename Visit> void visit_sets(Landscape &landscape, std::size_t first, std::size_t width, Visit visit) {
    const View &view = landscape.view();
    std::vector<std::size_t> variable(width), number(view.p);
    for (std::size_t k = 0; k < width; ++k) {
        variable[k] = view.at(first + k);
        number[variable[k]] = k;
    }
    const std::size_t sets = std::size_t{1} << width;
    std::size_t members = 0, behind = first;
    for (std::size_t count = 1; count <= sets; ++count) {
        for (std::size_t t = behind; t < first + width; ++t) {
            landscape.move(t, behind);
            visit(members, number[view.at(behind)], behind);
        }
        std::size_t changing = 0;
        while (!(count >> changing & 1)) ++changing;
        if (changing == width) break;  // all sets have been visited
        const bool leaves = members >> changing & 1;
        const auto at = static_cast<std::size_t>(view.place[variable[changing]]);
        if (leaves) --behind;
        landscape.move(at, behind);
        if (!leaves) ++behind;
        members ^= std::size_t{1} << changing;
        landscape.refresh();
    }
}

// Fill in the cost of every variable given every set of predecessors, and its change set, [set, variable]. The bit of the
// variable itself says that its gain changes, bit p that the variances differ, bit p + 1 that the intercept changes; of
// several pairs, in some pair. A constant stands before all sets and is not counted.
inline void tabulate(Landscape &landscape, double *costs, std::int64_t *changes, Watch &watch) {
    const std::size_t first = landscape.has_constant(), p = landscape.view().p - first;
    Places order(p + first);
    std::iota(order.begin() + static_cast<std::ptrdiff_t>(first), order.end(), 0);
    if (first) order[0] = static_cast<std::int64_t>(p);
    landscape.take(order.data());
    std::size_t done = 0;
    visit_sets(landscape, first, p, [&](std::size_t members, std::size_t i, std::size_t t) {
        watch.look(static_cast<double>(++done) / static_cast<double>(p << (p - 1)));
        std::int64_t changed = 0;
        costs[members * p + i] = landscape.cost(t, true, [&](const Pair &pair, const Cost &own) {
            changed |= std::int64_t{own.separate} << p | std::int64_t{own.gain} << i;
            for (std::size_t u = 0; u < own.changes; ++u) {
                const auto cause = static_cast<std::size_t>(pair.changes()[u]);
                changed |= std::int64_t{1} << (cause == p ? p + 1 : cause);
            }
        });
        changes[members * p + i] = changed;
    });
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
