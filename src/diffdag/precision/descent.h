// Coordinate descent: sweeps of the lasso (descent.py), and of the fused lasso for two tables and its debiasing
// directions (reproduce/methods/belilovsky.py, which has the formulas). descent.cpp is its Python face.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "../_base/array.h"

namespace diffdag {

inline double soft(double value, double amount) {
    return std::copysign(std::max(std::abs(value) - amount, 0.0), value);
}

// out += factor * x
inline void add(double *__restrict out, double factor, const double *__restrict x, std::size_t n) {
    for (std::size_t k = 0; k < n; ++k) out[k] += factor * x[k];
}

// So many sweeps in place: the first over all, the others over those that are not zero.
inline void sweep(const Numbers<2> &gram, const Array<double, 1> &gradient, const Array<double, 1> &values,
                  double penalty, int count) {
    const std::size_t m = values.shape[0];
    require(gram.shape[0] == m && gram.shape[1] == m && gradient.shape[0] == m, "gram, gradient: like values");
    double *x = values.data, *slope = gradient.data;
    for (int turn = 0; turn < count; ++turn) {
        for (std::size_t k = 0; k < m; ++k) {
            if (turn > 0 && x[k] == 0.0) continue;
            const double *row = gram.data + k * m;
            const double step = soft(row[k] * x[k] - slope[k], penalty) / row[k] - x[k];
            if (step == 0.0) continue;
            x[k] += step;
            add(slope, step, row, m);
        }
    }
}

// Two tables' square matrices, one behind the other.
struct Grams {
    const double *data;
    std::size_t q;
    const double *row(std::size_t table, std::size_t i) const { return data + (table * q + i) * q; }
    double at(std::size_t table, std::size_t i) const { return row(table, i)[i]; }
};

inline Grams both(const Numbers<3> &grams) {
    require(grams.shape[0] == 2 && grams.shape[1] == grams.shape[2], "grams: two square matrices");
    return {grams.data, grams.shape[1]};
}

// The fused lasso by descent on the two coefficients of one variable at a time, each time exactly.
inline void fused_lasso(const Numbers<3> &given, const Numbers<2> &cross, double sparsity, double fusion,
                        double tolerance, int sweeps, const Array<double, 2> &slopes) {
    const Grams grams = both(given);
    const std::size_t q = grams.q;
    require(cross.shape[0] == 2 && cross.shape[1] == q && slopes.shape[0] == 2 && slopes.shape[1] == q,
            "cross, slopes: by table and variable");
    double *slope[2] = {slopes.data, slopes.data + q};
    std::fill_n(slopes.data, 2 * q, 0.0);
    std::vector<double> residual(cross.data, cross.data + 2 * q);
    double *rest[2] = {residual.data(), residual.data() + q};
    for (int turn = 0; turn < sweeps; ++turn) {
        double largest = 0.0;
        for (std::size_t j = 0; j < q; ++j) {
            const double a = grams.at(0, j), b = grams.at(1, j);
            const double c = rest[0][j] + a * slope[0][j], d = rest[1][j] + b * slope[1][j];
            // Where the first is larger, the fused penalty pulls it down and the second up; or the reverse.
            double x = soft(c - fusion, sparsity) / a, y = soft(d + fusion, sparsity) / b;
            if (x <= y) {
                x = soft(c + fusion, sparsity) / a;
                y = soft(d - fusion, sparsity) / b;
                if (x >= y) x = y = soft(c + d, 2 * sparsity) / (a + b);
            }
            const double steps[2] = {x - slope[0][j], y - slope[1][j]};
            for (std::size_t k = 0; k < 2; ++k) {
                if (steps[k] == 0.0) continue;
                slope[k][j] += steps[k];
                largest = std::max(largest, std::abs(steps[k]) * grams.at(k, j));
                add(rest[k], -steps[k], grams.row(k, j), q);
            }
        }
        if (largest <= tolerance) break;
    }
}

// Improve one pair of directions in place; how far the worst constraint is broken, as a share of its bound. The dual
// variables are u and v with m_1 = share_1 (v + u) and m_2 = share_2 (v - u).
inline double improve(const Grams &grams, double a, double b, std::size_t j, double near, double far, double tolerance,
                      int sweeps, std::vector<double> &one, std::vector<double> &two) {
    const std::size_t q = grams.q;
    std::vector<double> r1(q), r2(q);
    for (std::size_t i = 0; i < q; ++i) {
        add(r1.data(), one[i], grams.row(0, i), q);
        add(r2.data(), two[i], grams.row(1, i), q);
    }
    for (int turn = 0; turn < sweeps; ++turn) {
        double moved = 0.0;
        for (std::size_t i = 0; i < q; ++i) {
            const double curve = a * grams.at(0, i) + b * grams.at(1, i);
            double u = (one[i] / a - two[i] / b) / 2, v = (one[i] / a + two[i] / b) / 2;
            double step = soft(u - (r1[i] - r2[i]) / curve, near / curve) - u;
            if (step != 0.0) {
                if (near > 0) moved = std::max(moved, std::abs(step) * curve / near);
                add(r1.data(), a * step, grams.row(0, i), q);
                add(r2.data(), -b * step, grams.row(1, i), q);
                u += step;
            }
            step = soft(v - (r1[i] + r2[i] - (i == j ? 2.0 : 0.0)) / curve, far / curve) - v;
            if (step != 0.0) {
                if (far > 0) moved = std::max(moved, std::abs(step) * curve / far);
                add(r1.data(), a * step, grams.row(0, i), q);
                add(r2.data(), b * step, grams.row(1, i), q);
                v += step;
            }
            one[i] = a * (v + u);
            two[i] = b * (v - u);
        }
        if (moved <= tolerance) break;
    }
    double miss = 0.0;
    for (std::size_t i = 0; i < q; ++i) {
        miss = std::max(miss, std::abs(r1[i] - r2[i]) - near);
        miss = std::max(miss, std::abs(r1[i] + r2[i] - (i == j ? 2.0 : 0.0)) - far);
    }
    return miss / std::max(near, 1e-9);
}

// M_1 and M_2, [table, row, column], from where they start, by descent on the dual; bounds without a solution are
// doubled.
inline void fused_directions(const Numbers<3> &given, const Numbers<1> &share, double slack, double wide,
                             double tolerance, int sweeps, int widenings, const Array<double, 3> &directions) {
    const Grams grams = both(given);
    const std::size_t q = grams.q;
    require(share.shape[0] == 2, "share: one for each table");
    require(directions.shape[0] == 2 && directions.shape[1] == q && directions.shape[2] == q, "directions: like grams");
    double *first = directions.data, *second = first + q * q;
    std::vector<double> one(q), two(q);
    for (std::size_t j = 0; j < q; ++j) {
        double near = slack, far = wide;
        for (int widening = 0; widening < widenings; ++widening) {
            for (std::size_t i = 0; i < q; ++i) {
                one[i] = first[i * q + j];
                two[i] = second[i * q + j];
            }
            const double miss = improve(grams, share.data[0], share.data[1], j, near, far, tolerance, sweeps, one, two);
            if (miss <= tolerance || widening == widenings - 1) break;
            near *= 2;
            far *= 2;
        }
        for (std::size_t i = 0; i < q; ++i) {
            first[i * q + j] = one[i];
            second[i * q + j] = two[i];
        }
    }
}

}  // namespace diffdag
