// What it costs to place a variable behind its predecessors.
//
// The variable is regressed on all its predecessors in both conditions at once, with shared coefficients except on
// a change set C, and a shared noise variance unless it pays to let it differ:
//
//     cost = min over C of [ -loglik + penalty |C| (+ a penalty if the variances differ) ]
//
// Up to a constant -loglik is N/2 log(rss / N) with one variance, n1/2 log(rss1 / n1) + n2/2 log(rss2 / n2) with
// two. What changes gain over no change at all counts by the share of the N rows that the coefficients leave free,
// so that few rows do not favour orders that put changed variables last; the rest of the score is the pooled
// likelihood, which is the same for all orders and left out here: a cost is what changes cost minus what they
// gain, 0 where nothing changed. `quick` chooses C as if the variances were equal and then asks whether two fit
// better. `full` also looks at all sets C where the predecessors are few and, with two variances, weights the
// conditions by them: each round minimises a bound that touches the cost at the last solution. Nearly always
// nothing has to change; that is seen at a glance by comparing two rows.
//
// One of the variables may be a constant, which precedes all others: its coefficients are the intercepts, and have a
// penalty of their own. Or all effects are multiplied by one factor, at one penalty that sets intercept and variance
// free too, beside a few that change otherwise (gain.h).
#pragma once

#include "change_set.h"
#include "columns.h"
#include "gain.h"

namespace diffdag {

constexpr std::size_t EXHAUSTIVE = 12;  // up to so many predecessors all change sets are looked at
constexpr int ROUNDS = 20;
constexpr double SMALL_TABLE = 5.0;   // rows, in penalties, below which the suspicion below is not asked for
constexpr std::size_t MANY = 14;      // with more predecessors than this a close look at two variances takes long:
constexpr double HOPELESS = 0.5;      // there they are given up if they lack this share of their penalty after a round

// The share of their penalty that two variances have to gain at the solution for one, to be looked at closely.
inline double suspect(std::size_t t) { return t <= MANY ? 0.25 : 0.5; }

// The share that a gain alone has to gain of what changes without it do, for others to be looked at besides.
constexpr double BESIDE_SHARE = 0.25;
constexpr double NEVER = std::numeric_limits<double>::infinity();
constexpr double NEGLIGIBLE = 1e-3;   // differences of costs up to this are not worth another round

// What the score is made of, by number of predecessors.
struct Rules {
    double n1, n2;
    const double *change, *variance;        // penalties of a changed coefficient, of a changed variance
    const double *intercept, *gain;         // and of a changed intercept, of a changed gain
    const double *free;                     // rows that the coefficients leave free
    const double *pays, *intercept_pays;    // the share of rss that a change of either has to remove
    const double *low, *high;               // shares of the residual in the first condition between which one
    const double *close_low, *close_high;   // variance does for both, or two are not worth a close look
    bool equal;                             // variances are known to be equal
    std::size_t constant = NOBODY;          // the variable that is one

    double rows() const { return n1 + n2; }
};

struct Cost {
    double value = 0.0;
    std::size_t changes = 0;
    bool separate = false;  // whether the variances differ
    bool gain = false;      // whether all effects are multiplied by a factor, besides; then the intercept is free
};

// An effect that must not change, nor the gain of what it acts on; of nobody if all may. Where cause and effect are the
// same only the gain must not.
struct Barred {
    std::size_t effect = NOBODY, cause = NOBODY;
};

// Inner products of the candidates at position t with one variance for both conditions.
struct SharedGeometry {
    const View &view;
    Columns &columns;
    std::size_t t;

    double width(std::size_t l) const { return view.W[t][l]; }
    double inner(std::size_t k, std::size_t l) const {
        double value = view.own[k][l];
        for (std::size_t s = 0; s < t; ++s) value -= view.Y[s][k] * view.Y[s][l];
        return value;
    }
    void column(std::size_t l, double *out) const {
        if (t <= MANY) {
            std::copy_n(view.own[l], view.p, out);
            subtract_rows(out, view.Y, l, view.Y, t, view.p);
        } else {
            std::copy_n(columns.at(view, t, l), view.p, out);
        }
    }
};

// The same when the conditions have weights u1, u2: inverse variances. With M = u1 K + u2 (I - K) = U'U, the
// predecessors' inner products under these weights,
//
//     W[k, l] = u1 A1[k, l] - G_k' G_l,    G_k = u1 U'^-1 Y[:, k].
//
// As X_l is a predecessor itself, W[l, l] is the least u1 |D1 (X_l - X b)|^2 + u2 |D2 X b|^2 over all b, and not
// less than min(u1, u2) times what it is with weights of one.
class WeightedGeometry {
  public:
    const View &view;

    explicit WeightedGeometry(const View &view)
        : view(view), U_(view.p, view.p), G_(view.p, view.p), known_(view.p), factors_(view.p) {}

    // Set position and weights: O(t^3).
    void weigh(double u1, double u2, std::size_t t) {
        u1_ = u1;
        u2_ = u2;
        t_ = t;
        std::fill(known_.begin(), known_.end(), false);
        for (std::size_t s = 0; s < t; ++s) {
            double *row = U_[s];
            for (std::size_t k = s; k < t; ++k) row[k] = (u1 - u2) * view.K[k][s];
            const double whole = row[s] + u2;
            row[s] = whole;
            subtract_rows(row + s, U_, s, U_, s, t - s, s);
            const double root = std::sqrt(std::max(row[s], 1e-13 * whole));
            for (std::size_t k = s; k < t; ++k) row[k] /= root;
            row[s] = root;
        }
    }

    // x becomes U'^-1 x.
    void solve_lower(double *x) const {
        for (std::size_t s = 0; s < t_; ++s) {
            x[s] /= U_[s][s];
            subtract(x + s + 1, x[s], U_[s] + s + 1, t_ - s - 1);
        }
    }
    // x becomes U^-1 x.
    void solve_upper(double *x) const {
        for (std::size_t s = t_; s-- > 0;) x[s] = (x[s] - dot(U_[s] + s + 1, x + s + 1, t_ - s - 1)) / U_[s][s];
    }

    double least_width(std::size_t l) const { return std::min(u1_, u2_) * view.W[t_][l]; }
    double width(std::size_t l) const { return inner(l, l); }
    double inner(std::size_t k, std::size_t l) const {
        return u1_ * view.own[k][l] - dot(factor(k), factor(l), t_);
    }
    void column(std::size_t l, double *out) const {
        std::copy_n(factor(l), t_, factors_.data());
        solve_upper(factors_.data());
        for (std::size_t s = 0; s < t_; ++s) factors_[s] *= u1_;
        for (std::size_t k = 0; k < view.p; ++k) out[k] = u1_ * view.own[l][k];
        subtract_rows(out, factors_.data(), view.Y, t_, view.p);
    }

  private:
    double u1_ = 1.0, u2_ = 1.0;
    std::size_t t_ = 0;
    Matrix U_;
    mutable Matrix G_;                 // row l is G_l, worked out when it is asked for
    mutable std::vector<char> known_;
    mutable Vector factors_;

    const double *factor(std::size_t l) const {
        double *row = G_[l];
        if (!known_[l]) {
            for (std::size_t s = 0; s < t_; ++s) row[s] = u1_ * view.Y[s][l];
            solve_lower(row);
            known_[l] = true;
        }
        return row;
    }
};

// One pair of conditions along an order, and the costs at its positions.
class Pair {
  public:
    const View &view = view_;

    Pair(const double *first, const double *pooled, std::size_t p, const Rules &rules)
        : view_(first, pooled, p), rules_(rules), columns_(p), set_(p, EXHAUSTIVE), weighted_(view), gain_(p), solved_(p), shift_(p), kept_(p + 1) {}
    Pair(Pair &&) = delete;  // the geometry refers to the view

    // Take an order, and work out the view along it.
    void take(const std::int64_t *order) {
        std::copy_n(order, view_.p, view_.order.begin());
        look();
    }
    void look() {
        view_.look();
        columns_.clear();
    }
    // Exchange the variables at positions t and t + 1.
    void swap(std::size_t t) {
        columns_.before_swap(view_, t);
        view_.swap(t);
    }
    bool has_constant() const { return rules_.constant != NOBODY; }
    // The changes at the position looked at last.
    const Places &changes() const { return set_.chosen; }

    // Whether nothing would have to change at positions t and t + 1 if they were exchanged.
    bool nothing_pays_after_swap(std::size_t t) const {
        const Rotation turn = view.rotation(t);
        if (!(rules_.low[t] < turn.k11 && turn.k11 < rules_.high[t])) return false;
        if (!(rules_.low[t + 1] < turn.k22 && turn.k22 < rules_.high[t + 1])) return false;
        if (const std::size_t k = rules_.constant; k != NOBODY) {
            const double x = view.Y[t][k], y = view.Y[t + 1][k], width = view.W[t][k];
            const double over = turn.c * x + turn.s * y, under = turn.s * x - turn.c * y;
            if (over * over > rules_.intercept_pays[t] * width) return false;
            if (under * under > rules_.intercept_pays[t + 1] * (width - over * over)) return false;
        }
        return !any_pays_rotated(view.Y[t], view.Y[t + 1], view.W[t], view.place.data(), static_cast<std::int64_t>(t),
                                 view.order[t + 1], turn.c, turn.s, rules_.pays[t], rules_.pays[t + 1], view.p);
    }

    // The effect of one variable on another must not change.
    void bar(const Barred &barred) { barred_ = barred; }

    Cost quick(std::size_t t) {
        set_.barred = barred_.effect == view.at(t) ? barred_.cause : NOBODY;
        if (nothing_pays(t, rules_.low, rules_.high)) return {};
        const double penalty = shared_fit(t, 0);
        Cost best{cost_of_one(set_.left, t) + penalty, set_.size, false};
        if (!rules_.equal) {
            const double two = cost_of_two(shared_residuals(t), t) + penalty + rules_.variance[t];
            if (two < best.value) best = {two, set_.size, true};
        }
        return or_gain(t, best, fitted(best, t), false);
    }

    Cost full(std::size_t t) {
        set_.barred = barred_.effect == view.at(t) ? barred_.cause : NOBODY;
        const bool calm = nothing_pays(t, rules_.close_low, rules_.close_high) && !jointly(t);
        const Cost best = calm ? Cost{} : without_gain(t);
        if (t <= EXHAUSTIVE || gain_pays(t)) return or_gain(t, best, free_cost(t), true);
        return or_gain(t, best, fitted(best, t), true);
    }

  private:
    View view_;
    Rules rules_;
    Columns columns_;
    ChangeSet set_;
    WeightedGeometry weighted_;
    Gain gain_;
    Barred barred_;
    Vector solved_, shift_;  // what changed effects, or weights, do to the shared coefficients
    Places kept_;

    // The best changes of coefficients and variance, without a gain.
    Cost without_gain(std::size_t t) {
        const double extra = rules_.variance[t];
        double penalty = shared_fit(t, EXHAUSTIVE);
        Cost best{cost_of_one(set_.left, t) + penalty, set_.size, false};
        if (rules_.equal) return best;
        Residuals both = shared_residuals(t);
        if (cost_of_two(both, t) + penalty > best.value - suspect(t) * extra) {
            // In a small table a large change can pass for noise: then the bound by separate regressions decides.
            if (std::min(rules_.n1, rules_.n2) > SMALL_TABLE * rules_.change[t]) return best;
            both = free_residuals(t);
            if (cost_of_two(both, t) + extra > best.value) return best;
        }
        kept_ = set_.chosen;
        for (int start = 0; start < 2; ++start) {
            if (start == 1) both = free_residuals(t);
            double before = std::numeric_limits<double>::infinity();
            for (int round = 0; round < ROUNDS; ++round) {
                penalty = weighted_fit(rules_.n1 / both.first, rules_.n2 / both.second, t);
                both = residuals(t);
                const double cost = cost_of_two(both, t) + penalty + extra;
                if (cost < best.value) {
                    best = {cost, set_.size, true};
                    kept_ = set_.chosen;
                }
                if (t > MANY && cost > best.value + HOPELESS * extra) {
                    set_.chosen = kept_;
                    return best;
                }
                if (!(cost <= before - NEGLIGIBLE)) break;
                before = cost;
            }
        }
        set_.chosen = kept_;
        return best;
    }

    // What changes cost without penalties. Those not among them do not pay one by one, so that hardly any fit costs less.
    double fitted(const Cost &cost, std::size_t t) const {
        double penalty = cost.separate ? rules_.variance[t] : 0.0;
        for (std::size_t u = 0; u < cost.changes; ++u)
            penalty += static_cast<std::size_t>(set_.chosen[u]) == rules_.constant ? rules_.intercept[t] : rules_.change[t];
        return cost.value - penalty;
    }

    // What two separate regressions cost without penalties: no fit costs less.
    double free_cost(std::size_t t) {
        const Residuals both = free_residuals(t);
        return rules_.equal ? cost_of_one(both.first + both.second, t) : cost_of_two(both, t);
    }

    // Whether a factor on what the shared coefficients explain, f, would pay: then D1 f is one more regressor.
    bool gain_pays(std::size_t t) const {
        const std::size_t y = view.at(t);
        const double r = view.length(t);
        const double inner = view.Y[t][y] - r * view.K[t][t];
        double width = view.own[y][y] - r * (2 * view.Y[t][y] - r * view.K[t][t]);
        for (std::size_t s = 0; s < t; ++s) {
            const double part = view.Y[s][y] - r * view.K[t][s];
            width -= part * part;
        }
        return inner * inner > -std::expm1(-2 * rules_.gain[t] / rules_.free[t]) * width;
    }

    // What a fit with a gain costs, but for what changes besides.
    double cost_of(const Gain::Fit &fit, std::size_t t) const {
        const double share = rules_.free[t] / rules_.rows();
        if (share * gain_.presence(fit, !rules_.equal) < 2 * rules_.change[t]) return NEVER;
        return likelihood_of(fit.both, t) + rules_.gain[t] + gain_.chance(fit, !rules_.equal, share, 2 * rules_.gain[t]);
    }
    double likelihood_of(const Residuals &both, std::size_t t) const {
        return rules_.equal ? cost_of_one(both.first + both.second, t) : cost_of_two(both, t);
    }
    // The loss of a gain that costs so much without penalties.
    double loss_of(double cost, std::size_t t) const {
        const double r = view.length(t), rows = rules_.rows();
        return 2 * rows / rules_.free[t] * cost + rows * std::log(r * r / rows);
    }

    // The best cost if all effects may be multiplied by a factor, if that is less; carefully, with others besides. Without
    // penalties it can hardly cost less than `least`.
    Cost or_gain(std::size_t t, Cost best, double least, bool careful) {
        if (least + rules_.gain[t] > best.value || barred_.effect == view.at(t)) return best;
        const double without = fitted(best, t), spent = best.value - without - rules_.gain[t];
        const std::size_t reach = careful ? Gain::FAR : Gain::NEAR;
        if (!gain_.look(view, t, rules_.constant, rules_.n1, rules_.n2, reach)) return best;
        const Gain::Fit fit = gain_.best(!rules_.equal, careful ? NEVER : loss_of(best.value - rules_.gain[t], t));
        if (likelihood_of(fit.both, t) + rules_.gain[t] < best.value)
            if (const double cost = cost_of(fit, t); cost < best.value) best = {cost, 0, !rules_.equal, true};
        // Changes besides a gain that cost more than those without would have to fit better than they do; and where a
        // gain alone does not come near them, it is none.
        const bool hopeful = careful && likelihood_of(fit.both, t) < BESIDE_SHARE * without;
        return hopeful ? or_gain_with_changes(t, best, spent, fit) : best;
    }

    // The best cost if some effects change besides a gain, if that is less: one after the other, each with the factor
    // that is best then. Where predecessors are many, those are tried that seem best given the last factor.
    Cost or_gain_with_changes(std::size_t t, Cost best, double spent, Gain::Fit fit) {
        kept_ = set_.chosen;
        Places causes;
        const std::size_t most = std::min(Gain::BESIDE, gain_.predecessors() - 2);  // at least two are multiplied
        while (causes.size() < most) {
            spent -= rules_.change[t];
            if (spent < 0) break;
            const std::size_t last = causes.size();
            causes.push_back(-1);
            if (t <= EXHAUSTIVE) {
                choose_beside(t, causes, last);
                for (std::size_t u = 0; u < last; ++u) choose_beside(t, causes, u);
            } else {
                changes_beside(fit, t);
                causes.clear();
                for (std::size_t u = 0; u < set_.size && causes.size() <= last; ++u)
                    if (static_cast<std::size_t>(set_.chosen[u]) != rules_.constant) causes.push_back(set_.chosen[u]);
                if (causes.size() <= last) break;
            }
            fit = gain_.beside(view, t, causes.data(), causes.size(), !rules_.equal);
            const double cost = cost_of(fit, t) + static_cast<double>(causes.size()) * rules_.change[t];
            if (cost < best.value) {
                best = {cost, causes.size(), !rules_.equal, true};
                std::copy(causes.begin(), causes.end(), kept_.begin());
            }
        }
        set_.chosen = kept_;
        return best;
    }

    // Make one of the causes whose effects change besides the one that leaves least.
    void choose_beside(std::size_t t, Places &causes, std::size_t which) {
        double lowest = NEVER;
        std::int64_t best = 0;
        for (std::size_t s = 0; s < t; ++s) {
            const std::int64_t tried = view.order[s];
            causes[which] = tried;
            if (view.at(s) == rules_.constant || std::count(causes.begin(), causes.end(), tried) > 1) continue;
            const double loss = gain_.beside(view, t, causes.data(), causes.size(), !rules_.equal).loss;
            if (loss < lowest) {
                lowest = loss;
                best = tried;
            }
        }
        causes[which] = best;
    }

    // Choose which effects change besides, given a factor: with the second condition's variable divided by it, the
    // coefficients are shared again.
    void changes_beside(const Gain::Fit &fit, std::size_t t) {
        const std::size_t y = view.at(t), p = view.p;
        const double c = std::cos(fit.angle), s = std::sin(fit.angle), rows = rules_.rows();
        const double whole = fit.both.first + fit.both.second;
        const double u1 = rules_.equal ? rows / whole : rules_.n1 / fit.both.first;
        const double u2 = rules_.equal ? rows / whole : rules_.n2 / fit.both.second;
        set_.size = 0;
        if (std::min(std::abs(c), std::abs(s)) < Gain::LEAST) return;
        weighted_.weigh(u1 * c * c, u2 * s * s, t);
        for (std::size_t k = 0; k < t; ++k) shift_[k] = u1 * c * view.Y[k][y] + u2 * s * (view.R[k][y] - view.Y[k][y]);
        weighted_.solve_lower(shift_.data());
        const double rss = u1 * view.own[y][y] + u2 * (view.pooled[y][y] - view.own[y][y]) - dot(shift_.data(), shift_.data(), t);
        weighted_.solve_upper(shift_.data());
        for (std::size_t k = 0; k < p; ++k) set_.g[k] = 0.0;
        subtract_rows(set_.g.data(), shift_.data(), view.Y, t, p);
        for (std::size_t k = 0; k < p; ++k) {
            set_.g[k] = u1 * c * (view.own[k][y] + c * set_.g[k]);
            set_.width[k] = weighted_.least_width(k);
        }
        std::fill(set_.exact.begin(), set_.exact.end(), false);
        const double scale = rows / rules_.free[t];
        select({t, rss, 0.0, scale * rules_.change[t], 0.0, rules_.constant}, weighted_, 0);
    }

    // Whether nothing has to change at position t: no coefficient by itself, nor the variance.
    bool nothing_pays(std::size_t t, const double *low, const double *high) const {
        if (!(low[t] < view.K[t][t] && view.K[t][t] < high[t])) return false;
        if (const std::size_t k = rules_.constant; k != NOBODY && view.place[k] < static_cast<std::int64_t>(t))
            if (view.Y[t][k] * view.Y[t][k] > rules_.intercept_pays[t] * view.W[t][k]) return false;
        return !any_pays(view.Y[t], view.W[t], view.place.data(), static_cast<std::int64_t>(t), rules_.pays[t],
                         view.p);
    }

    // Whether two changes may pay that do not pay one by one; looked at where all change sets are.
    bool jointly(std::size_t t) {
        if (t < 2 || t > EXHAUSTIVE) return false;
        const Residuals both = free_residuals(t);
        const double cheapest = rules_.constant == NOBODY ? rules_.change[t] : std::min(rules_.change[t], rules_.intercept[t]);
        return cost_of_one(both.first + both.second, t) + rules_.change[t] + cheapest < 0;
    }

    // What is gained if changes leave rss, with one variance.
    double cost_of_one(double rss, std::size_t t) const {
        const double r = view.length(t);
        return 0.5 * rules_.free[t] * std::log(rss / (r * r));
    }

    // What is gained if changes leave this much in each condition, with two variances.
    double cost_of_two(const Residuals &both, std::size_t t) const {
        const double r = view.length(t), rows = rules_.rows();
        const double one = rows * both.first / (r * r * rules_.n1), two = rows * both.second / (r * r * rules_.n2);
        return 0.5 * rules_.free[t] / rows * (rules_.n1 * std::log(one) + rules_.n2 * std::log(two));
    }

    // The best changes with one variance (see view.h for the formulas); return their penalty.
    double shared_fit(std::size_t t, std::size_t exhaustive) {
        const double r = view.length(t);
        for (std::size_t k = 0; k < view.p; ++k) set_.g[k] = r * view.Y[t][k];
        std::copy_n(view.W[t], view.p, set_.width.begin());
        std::fill(set_.exact.begin(), set_.exact.end(), true);
        const Task task{t, r * r, rules_.free[t], rules_.change[t], rules_.intercept[t], rules_.constant};
        select(task, SharedGeometry{view_, columns_, t}, exhaustive);
        return set_.penalties(task);
    }

    template <typename Geometry> void select(const Task &task, const Geometry &geometry, std::size_t exhaustive) {
        set_.forward_backward(task, geometry);
        if (2 <= task.t && task.t <= exhaustive) set_.best_subset(task, geometry);
    }

    // Residual sums of squares after `shared_fit`.
    Residuals shared_residuals(std::size_t t) {
        for (std::size_t s = 0; s < t; ++s) {
            double value = 0.0;
            for (std::size_t u = 0; u < set_.size; ++u)
                value -= set_.effect[u] * view.Y[s][static_cast<std::size_t>(set_.chosen[u])];
            shift_[s] = value;
        }
        return residuals(t);
    }

    // Squared lengths of r q_t - sum b_s q_s - sum c_j X_j in the first condition, without c in the second, with
    // the shift b and the effects c; K and I - K are the inner products of q in the two conditions.
    Residuals residuals(std::size_t t) const {
        const double r = view.length(t);
        const Vector &b = shift_, &c = set_.effect;
        double first = r * r * view.K[t][t], second = r * r * (1.0 - view.K[t][t]);
        for (std::size_t s = 0; s < t; ++s) {
            if (b[s] == 0.0) continue;
            const double along = b[s] * view.K[s][s] - 2 * r * view.K[t][s] + 2 * dot(b.data(), view.K[s], s);
            first += b[s] * along;
            second += b[s] * (b[s] - along);
        }
        for (std::size_t u = 0; u < set_.size; ++u) {
            const auto j = static_cast<std::size_t>(set_.chosen[u]);
            double along = -2 * r * view.Y[t][j];
            for (std::size_t s = 0; s < t; ++s) along += 2 * b[s] * view.Y[s][j];
            for (std::size_t v = 0; v < set_.size; ++v)
                along += c[v] * view.own[j][static_cast<std::size_t>(set_.chosen[v])];
            first += c[u] * along;
        }
        return {std::max(first, FLOOR * r * r), std::max(second, FLOOR * r * r)};
    }

    // Residual sums of squares when every coefficient differs: two separate regressions.
    Residuals free_residuals(std::size_t t) {
        const double r = view.length(t), k = view.K[t][t];
        const double first = std::max(k - explained(1.0, 0.0, t), FLOOR);
        const double second = std::max(1.0 - k - explained(0.0, 1.0, t), FLOOR);
        return {r * r * first, r * r * second};
    }

    // The share of the residual that other shared coefficients explain under the weights u1, u2; the shift is set to
    // h = M^-1 (u1 - u2) K[:, t], times the residual's length.
    double explained(double u1, double u2, std::size_t t) {
        weighted_.weigh(u1, u2, t);
        for (std::size_t s = 0; s < t; ++s) shift_[s] = (u1 - u2) * view.K[t][s];
        weighted_.solve_lower(shift_.data());
        const double share = dot(shift_.data(), shift_.data(), t);
        weighted_.solve_upper(shift_.data());
        for (std::size_t s = 0; s < t; ++s) shift_[s] *= view.length(t);
        return share;
    }

    // The best changes when the conditions have weights u1, u2 (inverse variances); return their penalty.
    double weighted_fit(double u1, double u2, std::size_t t) {
        const std::size_t p = view.p;
        const double r = view.length(t), k_tt = view.K[t][t];
        const double rss = r * r * (u1 * k_tt + u2 * (1.0 - k_tt) - explained(u1, u2, t));
        for (std::size_t k = 0; k < p; ++k) set_.g[k] = r * view.Y[t][k];
        subtract_rows(set_.g.data(), shift_.data(), view.Y, t, p);
        for (std::size_t k = 0; k < p; ++k) {
            set_.g[k] *= u1;
            set_.width[k] = weighted_.least_width(k);
        }
        std::fill(set_.exact.begin(), set_.exact.end(), false);
        const double scale = rules_.rows() / rules_.free[t];
        const Task task{t, rss, 0.0, scale * rules_.change[t], scale * rules_.intercept[t], rules_.constant};
        select(task, weighted_, EXHAUSTIVE);
        if (set_.size > 0) {  // the shift is M^-1 ((u1 - u2) r K[:, t] - u1 Y[:, C] effects)
            Vector &change = solved_;
            for (std::size_t s = 0; s < t; ++s) {
                double value = 0.0;
                for (std::size_t u = 0; u < set_.size; ++u)
                    value += set_.effect[u] * view.Y[s][static_cast<std::size_t>(set_.chosen[u])];
                change[s] = u1 * value;
            }
            weighted_.solve_lower(change.data());
            weighted_.solve_upper(change.data());
            subtract(shift_.data(), 1.0, change.data(), t);
        }
        return set_.penalties(task) / scale;
    }
};

}  // namespace diffdag
