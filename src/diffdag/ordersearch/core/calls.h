// What can be asked of the core: arguments are checked, arrays filled in. module.cpp is its Python face.
#pragma once

#include <optional>
#include <tuple>

#include "../../_base/array.h"
#include "walk.h"

namespace diffdag {

// Rows of the tables, by number of predecessors.
enum { CHANGE, VARIANCE, FREE, INTERCEPT, GAIN, PENALTIES };
enum { PAYS, LOW, HIGH, CLOSE_LOW, CLOSE_HIGH, INTERCEPT_PAYS, LIMITS };

// The pairs of conditions: first and pooled scatter, rows, penalties, limits, whether variances are known to be equal,
// and whether the last variable is a constant. The first axis of each array is the pair.
using Pairs = std::tuple<Numbers<3>, Numbers<3>, Numbers<2>, Numbers<3>, Numbers<3>, bool, bool>;
// An effect that must not change, as numbers of effect and cause.
using Edge = std::optional<std::pair<std::size_t, std::size_t>>;

inline Landscape make_landscape(const Pairs &given, const Edge &barred = {}) {
    const auto &[first, pooled, rows, table, limits, equal, constant] = given;
    const std::size_t count = first.shape[0], p = first.shape[1];
    const auto by_position = [count = count, p = p](const Numbers<3> &array, std::size_t height) {
        return array.shape[0] == count && array.shape[1] == height && array.shape[2] >= p;
    };
    require(count > 0 && p > 0 && first.shape[2] == p, "first: a square matrix for each pair");
    require(pooled.shape == first.shape, "pooled: like first");
    require(rows.shape[0] == count && rows.shape[1] == 2, "rows: two numbers for each pair");
    require(by_position(table, PENALTIES) && by_position(limits, LIMITS), "table, limits: by pair and position");
    Landscape landscape;
    for (std::size_t k = 0; k < count; ++k) {
        const auto of = [k](const Numbers<3> &array, std::size_t row) {
            return array.data + (k * array.shape[1] + row) * array.shape[2];
        };
        landscape.add(of(first, 0), of(pooled, 0), p,
                      Rules{rows.data[2 * k], rows.data[2 * k + 1], of(table, CHANGE), of(table, VARIANCE),
                            of(table, INTERCEPT), of(table, GAIN), of(table, FREE), of(limits, PAYS),
                            of(limits, INTERCEPT_PAYS), of(limits, LOW), of(limits, HIGH), of(limits, CLOSE_LOW),
                            of(limits, CLOSE_HIGH), equal, constant ? p - 1 : NOBODY});
    }
    if (barred) landscape.bar({barred->first, barred->second});
    return landscape;
}

inline void check_order(const Array<std::int64_t, 1> &order, std::size_t p) {
    std::vector<bool> met(p, false);
    require(order.shape[0] == p, "order: each variable once");
    for (std::size_t t = 0; t < p; ++t) {
        const std::int64_t v = order.data[t];
        require(v >= 0 && v < static_cast<std::int64_t>(p) && !met[static_cast<std::size_t>(v)],
                "order: each variable once");
        met[static_cast<std::size_t>(v)] = true;
    }
}

inline void walk(const Pairs &given, const Array<const bool, 2> &before, const Plan &plan,
                 const Array<std::int64_t, 1> &order, const Array<const bool, 1> &restless, const Edge &barred,
                 Watch &watch) {
    Landscape landscape = make_landscape(given, barred);
    const std::size_t p = landscape.view().p;
    require(before.shape[0] == p && before.shape[1] == p && restless.shape[0] == p, "before, restless: by variable");
    require(plan.window <= WIDEST, "window: at most 16");
    check_order(order, p);
    Walker walker(landscape, before.data, plan, watch);
    walker.walk(order.data, std::vector<bool>(restless.data, restless.data + p));
}

inline double read_order(const Pairs &given, const Array<std::int64_t, 1> &order, bool careful, const Edge &barred,
                         const Array<double, 1> &costs, const Array<bool, 2> &changed, const Array<bool, 1> &separate) {
    Landscape landscape = make_landscape(given, barred);
    const std::size_t p = landscape.view().p;
    check_order(order, p);
    require(costs.shape[0] == p && separate.shape[0] == p && changed.shape[0] == p && changed.shape[1] == p,
            "costs, changed, separate: by variable");
    return landscape.read(order.data, careful, costs.data, changed.data, separate.data);
}

// What the score rises by, along an order, if one effect after another must not change.
inline void weigh_changes(const Pairs &given, const Array<std::int64_t, 1> &order,
                          const Array<const std::int64_t, 2> &edges, const Array<double, 1> &rises) {
    Landscape landscape = make_landscape(given);
    const std::size_t p = landscape.view().p, count = edges.shape[0];
    check_order(order, p);
    require(edges.shape[1] == 2 && rises.shape[0] == count, "edges: effect and cause; rises: by edge");
    for (std::size_t k = 0; k < 2 * count; ++k)
        require(edges.data[k] >= 0 && edges.data[k] < static_cast<std::int64_t>(p), "edges: numbers of variables");
    landscape.take(order.data);
    for (std::size_t k = 0; k < count; ++k)
        rises.data[k] = landscape.rise_without(
            {static_cast<std::size_t>(edges.data[2 * k]), static_cast<std::size_t>(edges.data[2 * k + 1])});
}

inline void tabulate_costs(const Pairs &given, const Array<double, 2> &costs, const Array<std::int64_t, 2> &changes,
                           Watch &watch) {
    Landscape landscape = make_landscape(given);
    const std::size_t p = landscape.view().p - landscape.has_constant();
    require(p > 0 && p < 32, "fewer than 32 variables");
    require(costs.shape[0] == std::size_t{1} << p && costs.shape[1] == p && changes.shape == costs.shape,
            "costs, changes: by set and variable");
    tabulate(landscape, costs.data, changes.data, watch);
}

inline double best_of_all(const Numbers<2> &costs, const Array<const bool, 2> &before,
                          const Array<std::int64_t, 1> &order, const Array<double, 1> &scores) {
    const std::size_t p = costs.shape[1];
    require(p < 32 && costs.shape[0] == std::size_t{1} << p, "costs: by set and variable");
    require(before.shape[0] == p && before.shape[1] == p && order.shape[0] == p, "before, order: by variable");
    require(scores.shape[0] == costs.shape[0], "scores: by set");
    return best_order(costs.data, before.data, p, order.data, scores.data);
}

}  // namespace diffdag
