// All effects on a variable multiplied by one factor: its gain.
//
// A sensor's exposure, a batch's calibration or a drug's dose multiply every slope of an equation. With slopes
// cos(a) b in the first condition and sin(a) b in the second the factor is tan(a), and neither condition is preferred.
// Given the angle and weights u1, u2 (inverse variances) b solves
//
//     (u1 cos^2 G1 + u2 sin^2 G2) b = u1 cos g1 + u2 sin g2,
//
// with G1, G2 the inner products of the predecessors within each condition and g1, g2 those with the variable. Intercept
// and variance are free in each condition: what multiplies all effects seldom leaves them as they are. The angle is
// searched on a grid, and then where the derivative of the likelihood, which is known, is zero; between, the weights
// follow the residuals. In coordinates in which G1 + G2 is the identity and G1 tridiagonal, that takes no time.
//
// Up to EXHAUSTIVE predecessors b is free. With more it is sought where it must be but for chance: in the space that K
// (see view.h) makes of the shared coefficients and of what changed of them, [w, h, K w, K h, ...].
//
// Where all effects are weak, their direction adapts to chance, and a factor seems to gain more than a single
// coefficient would. Let U be what the shared slopes explain and x what a factor gains, both in squared standard errors;
// given U, the probability that chance gains x with k slopes is about ((U + x) / U)^((k - 1) / 2) exp(-x / 2) (Chernoff's
// bound). A search meets many sets of predecessors, each with a direction of its own, so a gain costs twice the logarithm,
// (k - 1) log(1 + x / U), more than its penalty, with x no larger than what pays for a gain at all: next to nothing where
// effects are clear.
//
// A factor of zero, or without end, is no gain: a variable that nothing acts on in one condition would pass for one on
// which everything acts that it acts on. Effects have to be there in both conditions, by the penalty of a change.
#pragma once

#include <array>

#include "view.h"

namespace diffdag {

// Residual sums of squares in the two conditions.
struct Residuals {
    double first, second;
};

class Gain {
  public:
    static constexpr std::size_t EXACT = 12;  // up to so many predecessors all directions are looked at,
    static constexpr std::size_t FAR = 6, NEAR = 2;   // with more, powers of K up to this one, less one
    static constexpr std::size_t MOST = 12;   // coordinates
    static constexpr std::size_t BESIDE = 2;  // effects that may change beside a gain
    static constexpr std::size_t ANGLES = 16;
    static constexpr double LEAST = 0.02;     // multiple of the slopes, in either condition
    static constexpr double PI = 3.14159265358979323846;

    // Inner products of the slopes within each condition, and with the variable, where G1 + G2 is the identity and G1
    // tridiagonal: its diagonal, and what stands beside it.
    struct Mode {
        double diagonal[MOST], beside[MOST], g1[MOST], g2[MOST], yy1, yy2;
    };
    struct Fit {
        double angle = 0.0;
        Residuals both{};
        double loss = 0.0;            // twice minus the log-likelihood, up to a constant
        const Mode *mode = nullptr;   // with which changes besides
    };

    explicit Gain(std::size_t p) : basis_(MOST, p), images_(MOST, p), image_(p) {}

    std::size_t predecessors() const { return predecessors_; }

    // Prepare for the variable at position t, with powers of K below `reach`; whether it has two slopes or more.
    bool look(const View &view, std::size_t t, std::size_t constant, double n1, double n2, std::size_t reach) {
        const std::size_t y = view.at(t);
        constant_ = constant != static_cast<std::size_t>(-1) && view.place[constant] < static_cast<std::int64_t>(t);
        if (y == constant || (constant_ && view.place[constant] != 0)) return false;
        from_ = constant_ ? 1 : 0;
        if (t < from_ + 2) return false;
        predecessors_ = t - from_;
        n1_ = n1;
        n2_ = n2;
        choose_basis(view, t, y, reach);
        fill(view, t, y);
        free_ = reduced(products_);
        return true;
    }

    // The best factor, with two variances or one; or one nearby if the loss will not fall below `enough`.
    Fit best(bool separate, double enough) const { return best(free_, separate, enough); }

    // The best factor if the effects of some causes change besides: these are eliminated from both conditions.
    Fit beside(const View &view, std::size_t t, const std::int64_t *causes, std::size_t count, bool separate) {
        Products left = products_;
        eliminate(view, t, causes, count, false, left.G1, left.g1, left.yy1);
        eliminate(view, t, causes, count, true, left.G2, left.g2, left.yy2);
        beside_ = reduced(left);
        return best(beside_, separate, std::numeric_limits<double>::infinity());
    }

    // What direction adapting to chance adds to the penalty of a gain; `most` is what matters of what it gains.
    double chance(const Fit &fit, bool separate, double share, double most) const {
        double u1 = 1.0, u2 = 1.0, slope;
        const Fit equal = profile(*fit.mode, PI / 4, separate, u1, u2, slope, FINE);
        const double k = static_cast<double>(slopes_);
        const double rest = u1 * equal.both.first + u2 * equal.both.second;
        const double scale = separate ? 1.0 : (n1_ + n2_) / rest;
        const double signal = share * scale * (u1 * free_.yy1 + u2 * free_.yy2 - rest);
        const double gains = std::min(share * std::max(equal.loss - fit.loss, 0.0), most);
        return (k - 1) * std::log1p(gains / std::max(signal, k));
    }

    // What the loss rises by if the effects vanish in one of the conditions, or nearly do.
    double presence(const Fit &fit, bool separate) const {
        double least = std::numeric_limits<double>::infinity(), slope;
        for (const double angle : {0.0, -1e-9, PI / 2, PI / 2 + 1e-9}) {
            double u1 = 1.0, u2 = 1.0;
            least = std::min(least, profile(*fit.mode, angle, separate, u1, u2, slope, FINE).loss);
        }
        return least - fit.loss;
    }

  private:
    static constexpr int COARSE = 2, FINE = 20;   // rounds of weights
    static constexpr double STEP = PI / static_cast<double>(ANGLES);

    // The same in the coordinates of the basis.
    struct Products {
        double G1[MOST][MOST], G2[MOST][MOST], g1[MOST], g2[MOST], yy1, yy2;
    };
    double n1_ = 0.0, n2_ = 0.0;
    bool constant_ = false;
    std::size_t from_ = 0, predecessors_ = 0, slopes_ = 0;
    bool whole_ = false;   // whether the basis is that of the view
    std::size_t multiplied_ = 0;   // of how many members of the basis K times them is known
    Matrix basis_, images_;
    Vector image_;
    Products products_;
    Mode free_, beside_;

    static double angle_of(std::size_t k) { return -PI / 2 + STEP * (static_cast<double>(k) + 0.5); }
    // Effects never vanish altogether: others that change besides would have slopes without end then.
    static double multiple(double x) { return std::abs(x) < LEAST ? std::copysign(LEAST, x) : x; }

    Fit best(const Mode &mode, bool separate, double enough) const {
        double u1, u2;
        Fit fit;
        std::array<double, ANGLES> slope;
        std::array<std::pair<double, double>, ANGLES> weights;
        std::size_t lowest = 0;
        for (std::size_t k = 0; k < ANGLES; ++k) {
            u1 = separate ? n1_ / mode.yy1 : 1.0;
            u2 = separate ? n2_ / mode.yy2 : 1.0;
            const Fit now = profile(mode, angle_of(k), separate, u1, u2, slope[k], COARSE);
            weights[k] = {u1, u2};
            if (k == 0 || now.loss < fit.loss) {
                fit = now;
                lowest = k;
            }
        }
        if (fit.loss - STEP * std::abs(slope[lowest]) > enough) return fit;
        u1 = weights[lowest].first;
        u2 = weights[lowest].second;
        return refine(mode, separate, fit, slope[lowest], u1, u2);
    }

    // K times a vector over positions from `from_` to t - 1; of K the lower triangle is kept.
    void multiply(const View &view, std::size_t t, const double *x, double *out) const {
        for (std::size_t s = from_; s < t; ++s) out[s] = 0.0;
        for (std::size_t s = from_; s < t; ++s) {
            const double *row = view.K[s];
            double sum = row[s] * x[s];
            for (std::size_t u = from_; u < s; ++u) {
                sum += row[u] * x[u];
                out[u] += row[u] * x[s];
            }
            out[s] += sum;
        }
    }

    // Make what is left of a vector outside the basis its next member, unless that is next to nothing.
    void extend(std::size_t t, const double *x) {
        double *row = basis_[slopes_];
        double before = 0.0, after = 0.0;
        for (std::size_t s = from_; s < t; ++s) {
            row[s] = x[s];
            before += x[s] * x[s];
        }
        for (int round = 0; round < 2; ++round)
            for (std::size_t k = 0; k < slopes_; ++k)
                subtract(row + from_, dot(basis_[k] + from_, row + from_, t - from_), basis_[k] + from_, t - from_);
        for (std::size_t s = from_; s < t; ++s) after += row[s] * row[s];
        if (!(after > 1e-16 * before)) return;
        const double scale = 1 / std::sqrt(after);
        for (std::size_t s = from_; s < t; ++s) row[s] *= scale;
        ++slopes_;
    }

    void choose_basis(const View &view, std::size_t t, std::size_t y, std::size_t reach) {
        whole_ = t - from_ <= EXACT;
        slopes_ = whole_ ? t - from_ : 0;
        if (whole_) return;
        for (std::size_t s = from_; s < t; ++s) image_[s] = view.R[s][y];
        extend(t, image_.data());
        extend(t, view.K[t]);
        for (multiplied_ = 0; multiplied_ < slopes_ && slopes_ < 2 * reach; ++multiplied_) {
            multiply(view, t, basis_[multiplied_], images_[multiplied_]);
            extend(t, images_[multiplied_]);
        }
    }

    double along(std::size_t k, const double *x, std::size_t t) const {
        return whole_ ? x[from_ + k] : dot(basis_[k] + from_, x + from_, t - from_);
    }

    void fill(const View &view, std::size_t t, std::size_t y) {
        const std::size_t m = slopes_;
        Products &f = products_;
        Vector &column = image_;
        for (std::size_t s = 0; s < t; ++s) column[s] = view.Y[s][y];
        for (std::size_t k = 0; k < m; ++k) f.g1[k] = along(k, column.data(), t);
        for (std::size_t s = 0; s < t; ++s) column[s] = view.R[s][y];
        for (std::size_t k = 0; k < m; ++k) f.g2[k] = along(k, column.data(), t) - f.g1[k];
        for (std::size_t k = 0; k < m; ++k) {
            if (!whole_ && k >= multiplied_) multiply(view, t, basis_[k], images_[k]);
            for (std::size_t l = 0; l <= k; ++l) {
                const double value = whole_ ? view.K[from_ + k][from_ + l] : along(l, images_[k], t);
                f.G1[k][l] = f.G1[l][k] = value;
                f.G2[k][l] = f.G2[l][k] = (k == l) - value;
            }
        }
        f.yy1 = view.own[y][y];
        f.yy2 = view.pooled[y][y] - view.own[y][y];
        if (!constant_) return;
        // The constant, the first of the view, is eliminated from both conditions.
        double inner[MOST];
        for (std::size_t s = from_; s < t; ++s) column[s] = view.K[s][0];
        for (std::size_t k = 0; k < m; ++k) inner[k] = along(k, column.data(), t);
        const double one = view.K[0][0], y1 = view.Y[0][y], y2 = view.R[0][y] - y1;
        for (std::size_t k = 0; k < m; ++k) {
            for (std::size_t l = 0; l < m; ++l) {
                f.G1[k][l] -= inner[k] * inner[l] / one;
                f.G2[k][l] -= inner[k] * inner[l] / (1.0 - one);
            }
            f.g1[k] -= inner[k] * y1 / one;
            f.g2[k] += inner[k] * y2 / (1.0 - one);
        }
        f.yy1 -= y1 * y1 / one;
        f.yy2 -= y2 * y2 / (1.0 - one);
    }

    // The least residuals at an angle, with some rounds of weights; `slope` is the derivative of the loss.
    Fit profile(const Mode &mode, double angle, bool separate, double &u1, double &u2, double &slope, int rounds) const {
        Fit fit;
        fit.angle = angle;
        fit.mode = &mode;
        Residuals steep{};
        double before = std::numeric_limits<double>::infinity();
        for (int round = 0; round < rounds; ++round) {
            fit.both = solve(mode, angle, u1, u2, steep);
            if (!separate) {
                const double sum = fit.both.first + fit.both.second;
                fit.loss = (n1_ + n2_) * std::log(sum / (n1_ + n2_));
                slope = (n1_ + n2_) * (steep.first + steep.second) / sum;
                return fit;
            }
            fit.loss = n1_ * std::log(fit.both.first / n1_) + n2_ * std::log(fit.both.second / n2_);
            u1 = n1_ / fit.both.first;
            u2 = n2_ / fit.both.second;
            slope = u1 * steep.first + u2 * steep.second;
            if (!(fit.loss <= before - 1e-7)) break;
            before = fit.loss;
        }
        return fit;
    }

    // The minimum around an angle of the grid, by the Illinois method on the derivative.
    Fit refine(const Mode &mode, bool separate, Fit fit, double slope, double u1, double u2) const {
        double inner = fit.angle, inner_slope = slope, step = slope > 0 ? -STEP : STEP;
        double outer = inner, outer_slope = 0.0;
        for (int tries = 0; tries < 8; ++tries, step /= 2) {
            outer = inner + step;
            const Fit now = profile(mode, outer, separate, u1, u2, outer_slope, FINE);
            if (now.loss < fit.loss) fit = now;
            if (outer_slope * inner_slope <= 0) break;
        }
        if (outer_slope * inner_slope > 0) return fit;
        int side = 0;
        for (int round = 0; round < 40; ++round) {
            const double next = (inner * outer_slope - outer * inner_slope) / (outer_slope - inner_slope);
            if (!std::isfinite(next)) break;
            double here;
            const Fit now = profile(mode, next, separate, u1, u2, here, FINE);
            if (now.loss < fit.loss) fit = now;
            if (here * outer_slope > 0) {
                if (side == 1) inner_slope /= 2;
                outer = next;
                outer_slope = here;
                side = 1;
            } else {
                if (side == -1) outer_slope /= 2;
                inner = next;
                inner_slope = here;
                side = -1;
            }
            if (std::abs(here) < 1e-9 * (n1_ + n2_) || std::abs(outer - inner) < 1e-13) break;
        }
        return fit;
    }

    // Take from the inner products of one condition what some causes explain there.
    void eliminate(const View &view, std::size_t t, const std::int64_t *causes, std::size_t count, bool second,
                   double (*G)[MOST], double *g, double &yy) {
        // q_s' X_j, and X_j' X_l, within the condition.
        const auto along_q = [&](std::size_t s, std::size_t j) { return second ? view.R[s][j] - view.Y[s][j] : view.Y[s][j]; };
        const auto product = [&](std::size_t j, std::size_t l) { return second ? view.pooled[j][l] - view.own[j][l] : view.own[j][l]; };
        const double one = !constant_ ? 1.0 : second ? 1.0 - view.K[0][0] : view.K[0][0];
        const std::size_t y = view.at(t), m = slopes_;
        // Of each cause, what is left of it outside the constant and the causes before it: its inner products with the
        // slopes, the variable, the other causes.
        double inner[BESIDE][MOST], target[BESIDE], among[BESIDE][BESIDE];
        for (std::size_t u = 0; u < count; ++u) {
            const auto j = static_cast<std::size_t>(causes[u]);
            const double mean = constant_ ? along_q(0, j) / one : 0.0;
            for (std::size_t s = from_; s < t; ++s)
                image_[s] = along_q(s, j) - (constant_ ? mean * (second ? -view.K[s][0] : view.K[s][0]) : 0.0);
            for (std::size_t k = 0; k < m; ++k) inner[u][k] = along(k, image_.data(), t);
            target[u] = product(j, y) - (constant_ ? mean * along_q(0, y) : 0.0);
            for (std::size_t v = 0; v < count; ++v) {
                const auto l = static_cast<std::size_t>(causes[v]);
                among[u][v] = product(j, l) - (constant_ ? mean * along_q(0, l) : 0.0);
            }
        }
        for (std::size_t u = 0; u < count; ++u) {
            const double length = std::max(among[u][u], 1e-300);
            for (std::size_t k = 0; k < m; ++k) {
                for (std::size_t l = 0; l < m; ++l) G[k][l] -= inner[u][k] * inner[u][l] / length;
                g[k] -= inner[u][k] * target[u] / length;
            }
            yy -= target[u] * target[u] / length;
            for (std::size_t v = u + 1; v < count; ++v) {
                const double share = among[v][u] / length;
                for (std::size_t k = 0; k < m; ++k) inner[v][k] -= share * inner[u][k];
                target[v] -= share * target[u];
                for (std::size_t w = u + 1; w < count; ++w) among[v][w] -= share * among[u][w];
            }
        }
    }

    // Coordinates in which the sum of both is the identity, by Cholesky; and the first tridiagonal, by Householder.
    Mode reduced(const Products &from) const {
        const std::size_t n = slopes_;
        double L[MOST][MOST], A[MOST][MOST];
        Mode mode;
        mode.yy1 = from.yy1;
        mode.yy2 = from.yy2;
        for (std::size_t k = 0; k < n; ++k) {
            for (std::size_t l = 0; l <= k; ++l) {
                double value = from.G1[k][l] + from.G2[k][l];
                for (std::size_t m = 0; m < l; ++m) value -= L[k][m] * L[l][m];
                // A direction that is next to nothing is left out: nothing is large along it.
                L[k][l] = l < k ? value / L[l][l] : value > 1e-9 ? std::sqrt(value) : 1e150;
            }
            double x = from.g1[k], y = from.g2[k];
            for (std::size_t m = 0; m < k; ++m) {
                x -= L[k][m] * mode.g1[m];
                y -= L[k][m] * mode.g2[m];
            }
            mode.g1[k] = x / L[k][k];
            mode.g2[k] = y / L[k][k];
        }
        for (std::size_t l = 0; l < n; ++l)   // L^-1 G1, column by column, and then L^-1 of its rows
            for (std::size_t k = 0; k < n; ++k) {
                double value = from.G1[k][l];
                for (std::size_t m = 0; m < k; ++m) value -= L[k][m] * A[m][l];
                A[k][l] = value / L[k][k];
            }
        for (std::size_t k = 0; k < n; ++k)
            for (std::size_t l = 0; l < n; ++l) {
                double value = A[k][l];
                for (std::size_t m = 0; m < l; ++m) value -= L[l][m] * A[k][m];
                A[k][l] = value / L[l][l];
            }
        for (std::size_t k = 0; k + 2 < n; ++k) reflect(A, mode, k, n);
        for (std::size_t k = 0; k < n; ++k) {
            mode.diagonal[k] = A[k][k];
            mode.beside[k] = k + 1 < n ? A[k + 1][k] : 0.0;
        }
        return mode;
    }

    // Make column k of a symmetric matrix zero below its second diagonal; what belongs to it turns along.
    static void reflect(double (*A)[MOST], Mode &mode, std::size_t k, std::size_t n) {
        double v[MOST], w[MOST], length = 0.0;
        for (std::size_t i = k + 1; i < n; ++i) {
            v[i] = A[i][k];
            length += v[i] * v[i];
        }
        length = std::sqrt(length);
        if (!(length > 0.0)) return;
        v[k + 1] += v[k + 1] > 0 ? length : -length;
        double square = 0.0, inner = 0.0, along1 = 0.0, along2 = 0.0;
        for (std::size_t i = k + 1; i < n; ++i) square += v[i] * v[i];
        for (std::size_t i = k; i < n; ++i) {
            w[i] = 0.0;
            for (std::size_t l = k + 1; l < n; ++l) w[i] += A[i][l] * v[l];
            w[i] *= 2 / square;
        }
        for (std::size_t i = k + 1; i < n; ++i) {
            inner += v[i] * w[i];
            along1 += v[i] * mode.g1[i];
            along2 += v[i] * mode.g2[i];
        }
        for (std::size_t i = k + 1; i < n; ++i) w[i] -= inner / square * v[i];
        for (std::size_t i = k + 1; i < n; ++i) {
            mode.g1[i] -= 2 * along1 / square * v[i];
            mode.g2[i] -= 2 * along2 / square * v[i];
            A[i][k] -= w[k] * v[i];
            for (std::size_t l = k + 1; l < n; ++l) A[i][l] -= v[i] * w[l] + w[i] * v[l];
        }
        for (std::size_t i = k + 1; i < n; ++i) A[k][i] = A[i][k];
    }

    // Residual sums of squares at an angle under weights, and their derivatives with the slopes held.
    Residuals solve(const Mode &mode, double angle, double u1, double u2, Residuals &steep) const {
        const std::size_t n = slopes_;
        const double c = multiple(std::cos(angle)), s = multiple(std::sin(angle));
        const double shared = u2 * s * s, own = u1 * c * c - shared;
        // A direction in which nothing varies where the slopes are there has no slope.
        const double nothing = 1e-10 * (u1 * c * c + shared);
        double pivot[MOST], b[MOST];
        for (std::size_t k = 0; k < n; ++k) {   // of the matrix own * T + shared * I
            b[k] = u1 * c * mode.g1[k] + u2 * s * mode.g2[k];
            pivot[k] = own * mode.diagonal[k] + shared;
            if (k > 0) {
                const double off = own * mode.beside[k - 1], factor = off / pivot[k - 1];
                pivot[k] -= factor * off;
                b[k] -= factor * b[k - 1];
            }
            if (!(pivot[k] > nothing)) pivot[k] = 1e150;
        }
        for (std::size_t k = n; k-- > 0;) {
            if (k + 1 < n) b[k] -= own * mode.beside[k] * b[k + 1];
            b[k] /= pivot[k];
        }
        Residuals both{mode.yy1, mode.yy2};
        steep = {0.0, 0.0};
        for (std::size_t k = 0; k < n; ++k) {
            double first = mode.diagonal[k] * b[k];
            if (k > 0) first += mode.beside[k - 1] * b[k - 1];
            if (k + 1 < n) first += mode.beside[k] * b[k + 1];
            const double second = b[k] - first;
            both.first += c * b[k] * (c * first - 2 * mode.g1[k]);
            both.second += s * b[k] * (s * second - 2 * mode.g2[k]);
            steep.first -= 2 * s * b[k] * (c * first - mode.g1[k]);
            steep.second += 2 * c * b[k] * (s * second - mode.g2[k]);
        }
        // What rounding made of a fit is none.
        if (both.first > 1e-12 * mode.yy1 && both.second > 1e-12 * mode.yy2) return both;
        return {mode.yy1, mode.yy2};
    }
};

}  // namespace diffdag
