// Walks over orders: annealing by adjacent swaps, insertion to a local optimum, and the best order of every window.
#pragma once

#include "dynamic.h"
#include "random.h"

namespace diffdag {

// Temperatures, in penalties: the first of the first and of the second annealing, and the last
// (docs/dev/order_measured.md).
constexpr double HOT = 10.0, WARM = 1.0, COLD = 0.1;
// Rise of the score, in penalties, beyond which a variable is not moved on with full costs, which are slow.
constexpr double NEAR = 3.0;
constexpr std::size_t WIDEST = 16;  // of the windows that are put in order

struct Plan {
    double unit;              // the penalty of a change
    std::size_t steps[2];     // of each annealing
    std::size_t sweeps;       // the most sweeps of an insertion,
    std::size_t careful;      // and of the last one, with full costs,
    bool thorough;            // of all variables, not only of those that take part in changes,
    std::size_t window;       // after which so many neighbours at a time are put in their best order, if more than 1
    double grain;             // what a move has to gain
    double far;               // a variable is moved on until the score has risen by this
    std::uint64_t seed;
};

// Costs by variable and set of predecessors. A set is known by the exclusive or of random numbers, one for each
// variable (Zobrist 1970).
class Memory {
  public:
    // The last variable is a constant, or not: it precedes all, and tells no sets apart.
    Memory(const View &view, Random &random, bool constant) : code_(view.p), sets_(view.p + 1), slots_(SLOTS) {
        for (std::size_t k = 0; k + constant < view.p; ++k) code_[k] = random.bits();
        for (std::size_t t = 0; t < view.p; ++t) sets_[t + 1] = sets_[t] ^ code_[view.at(t)];
    }

    struct Slot {
        std::uint64_t key = 0;
        double cost = 0.0;
    };

    // Where the cost of variable a is kept behind the predecessors of position t, and b if there is one.
    Slot &slot(std::size_t t, std::size_t a, std::uint64_t &key) { return at(sets_[t], a, key); }
    Slot &slot(std::size_t t, std::size_t a, std::size_t b, std::uint64_t &key) {
        return at(sets_[t] ^ code_[b], a, key);
    }
    // The variables at t and t + 1 were exchanged.
    void swapped(const View &view, std::size_t t) { sets_[t + 1] = sets_[t] ^ code_[view.at(t)]; }

  private:
    static constexpr std::size_t SLOTS = std::size_t{1} << 13;
    static constexpr std::uint64_t ODD = 2862933555777941757;  // tells the variable from its predecessors
    std::vector<std::uint64_t> code_, sets_;
    std::vector<Slot> slots_;

    Slot &at(std::uint64_t set, std::size_t a, std::uint64_t &key) {
        key = set * ODD + code_[a];
        return slots_[key & (SLOTS - 1)];
    }
};

class Walker {
  public:
    // before[a, b]: a has to precede b.
    Walker(Landscape &landscape, const bool *before, const Plan &plan, Watch &watch)
        : land_(landscape), before_(before), plan_(plan), watch_(watch), random_(plan.seed), p_(landscape.view().p),
          first_(landscape.has_constant()), cost_(p_) {}

    // Anneal and insert with quick costs, twice; then insert carefully, with full costs, and put windows in order. Only
    // restless variables are inserted, and those that their moves concern. `order` is changed in place.
    void walk(std::int64_t *order, std::vector<bool> restless) {
        restless_ = std::move(restless);
        land_.take(order);
        double best = total();
        for (std::size_t leg = 0; leg < 2; ++leg) {
            if (plan_.steps[leg] > 0 && p_ > 1 + first_) {
                restless_.assign(p_, true);
                anneal(plan_.steps[leg], leg == 0 ? HOT : WARM);
            }
            insert(plan_.sweeps, false, plan_.far);
            const double score = total();
            if (score < best) {
                best = score;
                std::copy_n(view().order.begin(), p_, order);
            } else if (!std::equal(order, order + p_, view().order.begin())) {
                land_.take(order);
            }
        }
        if (plan_.careful > 0) {
            restless_.assign(p_, plan_.thorough);
            for (std::size_t t = 0; t < p_ && !plan_.thorough; ++t) disturb(t, 0.0, true);
            insert_carefully();
            for (std::size_t round = 0; round < plan_.careful && reorder_windows(); ++round) insert_carefully();
        }
        std::copy_n(view().order.begin(), p_, order);
    }

  private:
    Landscape &land_;
    const bool *before_;
    const Plan &plan_;
    Watch &watch_;
    Random random_;
    std::size_t p_, first_;  // variables; the first position of one that is not a constant
    Vector cost_;  // at each position
    std::vector<bool> restless_;
    Places about_;

    const View &view() const { return land_.view(); }
    bool precedes(std::size_t a, std::size_t b) const { return before_[a * p_ + b]; }

    double total() {
        double score = 0.0;
        for (std::size_t t = 0; t < p_; ++t) score += land_.cost(t, false);
        return score;
    }

    // Work out the cost at a position; if it is not what it was, make those restless that it is about.
    void disturb(std::size_t t, double before, bool careful) {
        about_.clear();
        cost_[t] = land_.cost(t, careful, [&](const Pair &pair, const Cost &own) {
            about_.insert(about_.end(), pair.changes().begin(),
                          pair.changes().begin() + static_cast<std::ptrdiff_t>(own.changes));
        });
        if (std::abs(cost_[t] - before) <= 1e-9) return;
        restless_[view().at(t)] = true;
        for (const std::int64_t cause : about_) restless_[static_cast<std::size_t>(cause)] = true;
    }

    struct Trial {
        bool swapped;          // whether it was made, which is avoided if possible
        double upper, lower;   // costs at the two positions
    };

    // Costs at t and t + 1 if they were exchanged.
    Trial attempt(std::size_t t, Memory &memory) {
        if (land_.nothing_pays_after_swap(t)) return {false, 0.0, 0.0};
        const std::size_t a = view().at(t), b = view().at(t + 1);
        std::uint64_t one, two;
        Memory::Slot &upper = memory.slot(t, b, one), &lower = memory.slot(t, a, b, two);
        if (upper.key == one && lower.key == two) return {false, upper.cost, lower.cost};
        land_.swap(t);
        const Trial trial{true, land_.cost(t, false), land_.cost(t + 1, false)};
        upper = {one, trial.upper};
        lower = {two, trial.lower};
        return trial;
    }

    // Simulated annealing over adjacent swaps with quick costs. The temperature falls geometrically. What costs would
    // be after a swap is kept until a neighbour moves. Where it ends counts, not the best order met: many variables
    // that hardly matter keep the score up as long as it is warm, and insertion puts them right.
    void anneal(std::size_t steps, double hot) {
        Vector upper(p_), lower(p_);
        std::vector<bool> known(p_, false);
        Memory memory(view(), random_, first_ > 0);
        for (std::size_t t = 0; t < p_; ++t) cost_[t] = land_.cost(t, false);
        double heat = 1 / (hot * plan_.unit);
        const double cooling = std::exp(std::log(hot / COLD) / static_cast<double>(steps));
        for (std::size_t step = 0; step < steps; ++step) {
            watch_.look(static_cast<double>(step) / static_cast<double>(steps));
            heat *= cooling;
            const std::size_t t = first_ + random_.below(p_ - 1 - first_);
            if (precedes(view().at(t), view().at(t + 1))) continue;
            bool swapped = false;
            if (!known[t]) {
                known[t] = true;
                const Trial trial = attempt(t, memory);
                swapped = trial.swapped;
                upper[t] = trial.upper;
                lower[t] = trial.lower;
            }
            const double rise = upper[t] + lower[t] - cost_[t] - cost_[t + 1];
            if (rise <= 0 || random_.uniform() < std::exp(-rise * heat)) {
                if (!swapped) land_.swap(t);
                memory.swapped(view(), t);
                std::swap(upper[t], cost_[t]);
                std::swap(lower[t], cost_[t + 1]);
                known[t + 1] = false;
                if (t > first_) known[t - 1] = false;
                land_.refresh();
            } else if (swapped) {
                land_.swap(t);
            }
        }
    }

    // Sweep until nothing moves.
    void insert(std::size_t sweeps, bool careful, double far) {
        for (std::size_t sweep = 0; sweep < sweeps; ++sweep) {
            if (!insert_each(careful, far)) break;
            land_.refresh();
        }
    }

    void insert_carefully() { insert(plan_.careful, true, std::min(plan_.far, NEAR * plan_.unit)); }

    // Put the variables of each window of neighbours, half overlapping, in their best order by dynamic programming;
    // whether any moved. Those of the windows that did become restless.
    bool reorder_windows() {
        const std::size_t width = std::min(plan_.window, p_ - first_);
        if (width < 2) return false;
        const std::size_t sets = std::size_t{1} << width;
        Vector costs(sets * width), scores(sets);
        Places variables(width), best(width);
        const auto before = std::make_unique<bool[]>(width * width);
        bool moved = false;
        for (std::size_t first = first_;; first = std::min(first + width / 2, p_ - width)) {
            double now = 0.0;
            for (std::size_t k = 0; k < width; ++k) {
                now += land_.cost(first + k, true);
                variables[k] = view().order[first + k];
                for (std::size_t l = 0; l < width; ++l)
                    before[k * width + l] = precedes(view().at(first + k), view().at(first + l));
            }
            visit_sets(land_, first, width, [&](std::size_t members, std::size_t k, std::size_t t) {
                watch_.look(1.0);
                costs[members * width + k] = land_.cost(t, true);
            });
            const double least = best_order(costs.data(), before.get(), width, best.data(), scores.data());
            const bool better = least < now - plan_.grain;
            moved |= better;
            for (std::size_t k = 0; k < width; ++k) {
                const auto v = static_cast<std::size_t>(variables[better ? static_cast<std::size_t>(best[k]) : k]);
                land_.move(static_cast<std::size_t>(view().place[v]), first + k);
                if (better) restless_[v] = true;
            }
            if (first + width == p_) return moved;
        }
    }

    // Move each restless variable, in random turns, to its best place; whether any moved. Where a move changes the
    // cost at a position, those that it is about become restless.
    bool insert_each(bool careful, double far) {
        bool moved = false;
        std::vector<std::size_t> turns(p_ - first_);
        for (std::size_t t = 0; t < p_; ++t) cost_[t] = land_.cost(t, careful);
        std::iota(turns.begin(), turns.end(), 0);
        random_.shuffle(turns);
        for (const std::size_t v : turns) {
            if (!restless_[v]) continue;
            restless_[v] = false;
            const auto start = static_cast<std::size_t>(view().place[v]);
            const std::size_t target = best_place(start, careful, far);
            land_.move(start, target);
            if (target == start) continue;
            moved = true;
            for (std::size_t t = std::min(start, target); t <= std::max(start, target); ++t)
                disturb(t, cost_[t], careful);
        }
        return moved;
    }

    // Where the variable at a position is best put.
    std::size_t best_place(std::size_t start, bool careful, double far) {
        const std::size_t v = view().at(start);
        double least = -plan_.grain;
        std::size_t target = start;
        for (const bool later : {true, false}) {
            double rise = 0.0, own = cost_[start];
            std::size_t at = start;
            while (later ? at + 1 < p_ : at > first_) {
                if (!(rise < far)) break;
                watch_.look(1.0);
                const std::size_t next = later ? at + 1 : at - 1, other = view().at(next);
                if (later ? precedes(v, other) : precedes(other, v)) break;
                land_.swap(std::min(at, next));
                const double after = land_.cost(next, careful);
                rise += land_.cost(at, careful) + after - own - cost_[next];
                own = after;
                at = next;
                if (rise < least) {
                    least = rise;
                    target = at;
                }
            }
            land_.move(at, start);
        }
        return target;
    }
};

}  // namespace diffdag
