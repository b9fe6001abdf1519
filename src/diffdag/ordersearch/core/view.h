// Two scatter matrices seen along an order of the variables, and how that view changes when two swap.
//
// Let A1, A2 be the scatter matrices of the two conditions and A1 + A2 = R'R the Cholesky factorisation along the
// order. Row s of R belongs to q_s, the part of the s-th variable that its predecessors do not explain in the
// pooled data, scaled to length 1. All that a score needs are inner products within the first condition, which we
// write with D1, the projection on its rows:
//
//     Y[s, l] = q_s' D1 X_l      K[s, u] = q_s' D1 q_u      W[t, l] = A1[l, l] - sum over s < t of Y[s, l]^2
//
// For the variable at position t regressed on all before it, with shared coefficients, the residual is
// e = R[t, t] q_t; letting the coefficient of X_l differ adds the regressor D1 X_l, whose part outside the
// predecessors has squared length W[t, l] and inner product R[t, t] Y[t, l] with e. So the first step of a search
// for changes reads two rows; nothing is solved.
//
// Swapping the variables at positions t and t + 1 rotates q_t and q_{t+1}: O(p), and as stable as rotations are.
// Rows of all matrices are positions; columns are variables, but positions for K, of which only the lower triangle
// is kept.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "matrix.h"

namespace diffdag {

struct Rotation {
    double c, s;           // cosine and sine
    double k11, k21, k22;  // the new block of K
};

struct View {
    std::size_t p;
    Matrix own, pooled;  // A1, A1 + A2
    Matrix R, Y, K, W;
    Places order, place;  // the variable at each position, the position of each variable

    View(const double *first, const double *both, std::size_t p)
        : p(p), own(p, p), pooled(p, p), R(p, p), Y(p, p), K(p, p), W(p + 1, p), order(p), place(p),
          upper_(p, p), columns_(p, p), diagonal_(p) {
        for (std::size_t i = 0; i < p; ++i) {
            std::copy_n(first + i * p, p, own[i]);
            std::copy_n(both + i * p, p, pooled[i]);
            diagonal_[i] = own[i][i];
        }
    }

    std::size_t at(std::size_t t) const { return static_cast<std::size_t>(order[t]); }
    // The length of what the predecessors of a position do not explain.
    double length(std::size_t t) const { return R[t][at(t)]; }

    // Work out the view from scratch along `order`: O(p^3).
    void look() {
        for (std::size_t t = 0; t < p; ++t) place[at(t)] = static_cast<std::int64_t>(t);
        std::copy_n(diagonal_.begin(), p, W[0]);
        for (std::size_t s = 0; s < p; ++s) {
            const std::size_t a = at(s);
            // Row s of R by position, then by variable.
            double *row = upper_[s];
            for (std::size_t u = s; u < p; ++u) row[u] = pooled[a][at(u)];
            subtract_rows(row + s, upper_, s, upper_, s, p - s, s);
            // Validation refuses collinear columns; what rounding leaves of a nearly collinear one stays positive.
            const double root = std::sqrt(std::max(row[s], 1e-14 * pooled[a][a]));
            row[s] = root;
            for (std::size_t u = s + 1; u < p; ++u) row[u] /= root;
            for (std::size_t u = 0; u < p; ++u) R[s][at(u)] = u < s ? 0.0 : row[u];
            std::copy_n(own[a], p, Y[s]);
            subtract_rows(Y[s], upper_, s, Y, s, p);
            for (std::size_t k = 0; k < p; ++k) Y[s][k] /= root;
            minus_square(W[s + 1], W[s], Y[s], p);
        }
        for (std::size_t u = 0; u < p; ++u) {  // K R = Y, column by column; K is symmetric
            double *column = columns_[u];
            for (std::size_t s = u; s < p; ++s) column[s] = Y[s][at(u)];
            subtract_rows(column + u, upper_, u, columns_, u, p - u, u);
            for (std::size_t s = u; s < p; ++s) {
                column[s] /= upper_[u][u];
                K[s][u] = column[s];
            }
        }
    }

    // What exchanging positions t and t + 1 does.
    Rotation rotation(std::size_t t) const {
        const std::size_t b = at(t + 1);
        const double x = R[t][b], y = R[t + 1][b], root = std::sqrt(x * x + y * y), c = x / root, s = y / root;
        const double k11 = K[t][t], k21 = K[t + 1][t], k22 = K[t + 1][t + 1], both = 2 * c * s * k21;
        return {c, s, c * c * k11 + both + s * s * k22, c * s * (k11 - k22) + (s * s - c * c) * k21,
                s * s * k11 - both + c * c * k22};
    }

    void swap(std::size_t t) {
        const Rotation turn = rotation(t);
        const double c = turn.c, s = turn.s;
        rotate(R[t], R[t + 1], c, s, p);
        R[t + 1][at(t + 1)] = 0.0;
        rotate(Y[t], Y[t + 1], c, s, p);
        minus_square(W[t + 1], W[t], Y[t], p);
        rotate(K[t], K[t + 1], c, s, t);
        K[t][t] = turn.k11;
        K[t + 1][t] = turn.k21;
        K[t + 1][t + 1] = turn.k22;
        for (std::size_t k = t + 2; k < p; ++k) {
            double *row = K[k] + t;
            const double x = row[0], y = row[1];
            row[0] = c * x + s * y;
            row[1] = s * x - c * y;
        }
        std::swap(order[t], order[t + 1]);
        place[at(t)] = static_cast<std::int64_t>(t);
        place[at(t + 1)] = static_cast<std::int64_t>(t + 1);
    }

  private:
    Matrix upper_, columns_;  // R by position, and K by columns
    Vector diagonal_;
};

}  // namespace diffdag
