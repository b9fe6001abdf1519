// Which coefficients have to differ: the best set of changes for one variable given its predecessors.
//
// Given are the candidates' inner products W (outside the shared regressors), their inner products g with the
// residual, and the residual's squared length rss. A change set C leaves rss - g_C' W_CC^-1 g_C and costs
//
//     fit(what is left) + penalties of C,    fit(x) = free/2 log x  (one unknown variance)  or  x / 2  (known ones).
//
// All changes have the same penalty, but for that of the constant, which is a changed intercept. `forward_backward`
// adds the best candidate while that pays and drops what no longer pays; `best_subset` looks at all sets. A change
// pays if rss falls from x by more than (1 - exp(-2 penalty / free)) x, or twice the penalty where variances are
// known.
//
// The inner products W come from a geometry, which has
//     inner(k, l)        W[k, l]
//     column(l, out)     W[:, l]
//     width(l)           W[l, l]
// and need not be asked for the width of a candidate as long as a lower bound of it shows that it does not pay.
#pragma once

#include <limits>

#include "view.h"

namespace diffdag {

constexpr std::size_t NOBODY = std::numeric_limits<std::size_t>::max();
constexpr double COLLINEAR = 1e-9;  // a candidate whose part outside the others is a smaller share is collinear
constexpr double FLOOR = 1e-12;     // no fit is better than this

// What a search for changes at one position is about.
struct Task {
    std::size_t t;
    double rss;
    double free;          // rows; 0 where variances are known
    double penalty;           // of a changed coefficient
    double intercept;         // and of that of the constant,
    std::size_t constant;     // if one of the variables is

    double fit(double rest) const { return free > 0 ? 0.5 * free * std::log(rest) : 0.5 * rest; }
    double penalty_of(std::size_t k) const { return k == constant ? intercept : penalty; }
    // What rss has to fall by from `rest` for a change to pay.
    double pays(double rest) const { return free > 0 ? -std::expm1(-2 * penalty / free) * rest : 2 * penalty; }
    // What rss may rise by from `rest` before it is worth it to change a coefficient.
    double spares(double rest, std::size_t k) const {
        return free > 0 ? std::expm1(2 * penalty_of(k) / free) * rest : 2 * penalty_of(k);
    }
    // What it is worth to lower rss from `rest` by so much.
    double worth(double rest, double gain) const { return fit(rest) - fit(std::max(rest - gain, floor())); }
    double floor() const { return FLOOR * rss; }
};

struct Strongest {
    std::ptrdiff_t variable;  // -1 if there is none
    double gain;
};

class ChangeSet {
  public:
    Vector g;               // inner products of each candidate with the residual
    Vector width;           // with itself, or a lower bound of that
    std::vector<char> exact;  // whether it is no bound
    Places chosen;          // the changes, in the order of their choice
    Vector effect;          // their coefficients
    std::size_t size = 0;   // how many there are
    double left = 0.0;      // what they leave of rss
    std::size_t barred = NOBODY;  // a variable that is no candidate

    // Room for so many variables, and for best subsets of up to `exhaustive` candidates.
    ChangeSet(std::size_t p, std::size_t exhaustive)
        : g(p), width(p), exact(p), chosen(p + 1), effect(p + 1), p_(p), deep_(std::min(p, exhaustive) + 2), g_left_(p),
          spent_(p), along_(p + 1), length_(p + 1), basis_(p + 1, p), inverse_(p + 1, p + 1), stack_(deep_ * deep_, deep_),
          trail_(deep_ + 1), spent_on_(deep_ + 1) {}

    template <typename Geometry> void forward_backward(const Task &task, const Geometry &geometry) {
        include_first(geometry, 0);
        left = task.rss;
        for (std::size_t step = 0; step < 4 * task.t + 4; ++step) {  // the cost falls; the bound is for rounding errors
            const Strongest best = strongest(geometry, task);
            const bool grows = best.variable >= 0;
            if (grows)
                left = std::max(left - include(geometry, static_cast<std::size_t>(best.variable)), task.floor());
            bool shrinks = false;
            if (size > 1) {
                const auto [worst, excess] = weakest(task);
                shrinks = excess < 0;
                if (shrinks) {
                    std::copy(chosen.begin() + worst + 1, chosen.begin() + static_cast<std::ptrdiff_t>(size),
                              chosen.begin() + worst);
                    left = std::max(task.rss - include_first(geometry, size - 1), task.floor());
                }
            }
            if (!grows && !shrinks) break;
        }
    }

    // The best of all sets, after `forward_backward`. Sets are visited depth first; each step eliminates one
    // candidate from the rest (Furnival and Wilson 1974).
    template <typename Geometry> void best_subset(const Task &task, const Geometry &geometry) {
        const std::size_t t = task.t;
        fill_first(task, geometry);
        // What all changes together leave bounds what any set can leave.
        const double everything = task.fit(std::max(left_by_all(t), task.floor()));
        const double cheapest = std::min(task.penalty, task.penalty_of(task.constant));
        double best = task.fit(left) + penalties(task);
        std::ptrdiff_t depth = 0;
        const auto end = static_cast<std::ptrdiff_t>(t);
        trail_[1] = -1;
        while (depth >= 0) {
            const auto d = static_cast<std::size_t>(depth);
            const std::ptrdiff_t next = std::max(trail_[d + 1], depth > 0 ? trail_[d] : -1) + 1;
            if (next >= end || !(everything + spent_on_[d] + cheapest < best)) {
                --depth;
                continue;
            }
            trail_[d + 1] = next;
            const auto c = static_cast<std::size_t>(next);
            if (geometry.view.at(c) == barred || stack(d, c)[c] <= COLLINEAR * stack(0, c)[c]) continue;
            eliminate(d, d + 1, c, t);
            const double rest = std::max(stack(d + 1, t)[t], task.floor());
            spent_on_[d + 1] = spent_on_[d] + task.penalty_of(geometry.view.at(c));
            const double cost = task.fit(rest) + spent_on_[d + 1];
            if (cost < best - 1e-12 * std::abs(best)) {
                best = cost;
                left = rest;
                size = d + 1;
                for (std::size_t u = 0; u < size; ++u)
                    chosen[u] = geometry.view.order[static_cast<std::size_t>(trail_[u + 1])];
            }
            if (next + 1 < end) {
                ++depth;
                trail_[d + 2] = -1;
            }
        }
        include_first(geometry, size);
    }

    // What the changes cost.
    double penalties(const Task &task) const {
        double sum = 0.0;
        for (std::size_t u = 0; u < size; ++u) sum += task.penalty_of(static_cast<std::size_t>(chosen[u]));
        return sum;
    }

  private:
    std::size_t p_, deep_;
    Vector g_left_;           // g outside what is chosen
    Vector spent_;            // what is chosen takes from each width
    Vector along_;            // the residual along each vector of the basis
    Vector length_;           // squared lengths of the rows of the triangle's inverse
    Matrix basis_, inverse_;  // orthonormal vectors that span the changes; the inverse of its triangle
    Matrix stack_;            // for each depth what is left of the inner products
    std::vector<std::ptrdiff_t> trail_;
    Vector spent_on_;         // penalties of the first changes of the trail

    double *stack(std::size_t depth, std::size_t row) { return stack_[depth * deep_ + row]; }

    // The exact squared length of a candidate outside what is chosen.
    template <typename Geometry> double width_left(const Geometry &geometry, std::size_t k) {
        if (!exact[k]) {
            width[k] = geometry.width(k);
            exact[k] = true;
        }
        return width[k] - spent_[k];
    }

    // Make a variable the next chosen one; return by how much that lowers rss.
    template <typename Geometry> double include(const Geometry &geometry, std::size_t best) {
        const std::size_t m = size++;
        double *row = basis_[m];
        geometry.column(best, row);
        subtract_rows(row, basis_, best, basis_, m, p_);
        const double scale = 1.0 / std::sqrt(width_left(geometry, best)), a = g_left_[best] * scale;
        for (std::size_t k = 0; k < p_; ++k) row[k] *= scale;
        subtract(g_left_.data(), a, row, p_);
        add_square(spent_.data(), row, p_);
        g_left_[best] = 0.0;
        spent_[best] = width[best];
        along_[m] = a;
        chosen[m] = static_cast<std::int64_t>(best);
        invert(m);
        return a * a;
    }

    // Column m of the inverse of the basis' triangle T at the change set; coefficients are T^-1 along.
    void invert(std::size_t m) {
        const auto best = static_cast<std::size_t>(chosen[m]);
        effect[m] = length_[m] = 0.0;
        for (std::size_t row = 0; row <= m; ++row) {
            double x = row == m ? 1.0 : 0.0;
            for (std::size_t u = row; u < m; ++u) x -= inverse_[row][u] * basis_[u][best];
            x /= basis_[m][best];
            inverse_[row][m] = x;
            effect[row] += x * along_[m];
            length_[row] += x * x;
        }
    }

    // Bring the basis in line with the first m of the change set; return by how much they lower rss.
    template <typename Geometry> double include_first(const Geometry &geometry, std::size_t m) {
        std::copy(g.begin(), g.end(), g_left_.begin());
        std::fill(spent_.begin(), spent_.end(), 0.0);
        size = 0;
        double lowers = 0.0;
        while (size < m) lowers += include(geometry, static_cast<std::size_t>(chosen[size]));
        return lowers;
    }

    // The change that is worth least, and what rss would rise by without it beyond what its penalty allows for.
    std::pair<std::ptrdiff_t, double> weakest(const Task &task) const {
        std::ptrdiff_t worst = -1;
        double least = std::numeric_limits<double>::infinity();
        for (std::size_t row = 0; row < size; ++row) {
            const double rise = effect[row] * effect[row] / length_[row];
            const double excess = rise - task.spares(left, static_cast<std::size_t>(chosen[row]));
            if (excess < least) {
                worst = static_cast<std::ptrdiff_t>(row);
                least = excess;
            }
        }
        return {worst, least};
    }

    // Which candidate lowers the cost most.
    template <typename Geometry> Strongest strongest(const Geometry &geometry, const Task &task) {
        Strongest best{-1, task.pays(left)};
        const auto end = static_cast<std::int64_t>(task.t);
        const auto &place = geometry.view.place;
        for (std::size_t k = 0; k < p_; ++k) {
            const double square = g_left_[k] * g_left_[k];
            // Multiplied out: a division per candidate would take most of the time.
            if (place[k] >= end || k == barred || k == task.constant || !(square > best.gain * (width[k] - spent_[k]))) continue;
            const double rest = width_left(geometry, k);
            if (rest > COLLINEAR * width[k] && square > best.gain * rest)
                best = {static_cast<std::ptrdiff_t>(k), square / rest};
        }
        if (task.constant == NOBODY || place[task.constant] >= end) return best;
        const double rest = width_left(geometry, task.constant), g = g_left_[task.constant];
        if (!(rest > COLLINEAR * width[task.constant])) return best;
        const double by_intercept = task.worth(left, g * g / rest) - task.intercept;
        const double by_other = best.variable < 0 ? 0.0 : task.worth(left, best.gain) - task.penalty;
        if (by_intercept > by_other) best = {static_cast<std::ptrdiff_t>(task.constant), g * g / rest};
        return best;
    }

    // The inner products of all candidates, and with the residual in the last row and column.
    template <typename Geometry> void fill_first(const Task &task, const Geometry &geometry) {
        const std::size_t t = task.t;
        for (std::size_t k = 0; k < t; ++k) {
            const std::size_t one = geometry.view.at(k);
            for (std::size_t n = 0; n <= k; ++n)
                stack(0, k)[n] = stack(0, n)[k] = geometry.inner(one, geometry.view.at(n));
            stack(0, k)[t] = stack(0, t)[k] = g[one];
        }
        stack(0, t)[t] = task.rss;
    }

    // Eliminate candidate c from what comes after it.
    void eliminate(std::size_t from, std::size_t to, std::size_t c, std::size_t t) {
        const double *pivot = stack(from, c);
        for (std::size_t k = c + 1; k <= t; ++k) {
            const double f = stack(from, k)[c] / pivot[c];
            const double *old = stack(from, k);
            double *now = stack(to, k);
            for (std::size_t n = c + 1; n <= t; ++n) now[n] = old[n] - f * pivot[n];
        }
    }

    // What is left of rss when every coefficient differs.
    double left_by_all(std::size_t t) {
        for (std::size_t k = 0; k <= t; ++k) std::copy_n(stack(0, k), t + 1, stack(t, k));
        for (std::size_t c = 0; c < t; ++c)
            if (stack(t, c)[c] > COLLINEAR * stack(0, c)[c]) eliminate(t, t, c, t);
        return stack(t, t)[t];
    }
};

}  // namespace diffdag
