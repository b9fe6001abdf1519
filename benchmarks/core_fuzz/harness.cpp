// One input of the fuzzer, thrown at one of the ways into the compiled code. The environment variable DIFFDAG_TARGET
// names the way in; benchmarks/core_fuzz.py builds and runs this.
//
// What is refused by a ValueError is fine, and so is any number as a result. Orders have to be orders.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../../src/diffdag/ordersearch/core/calls.h"
#include "../../src/diffdag/precision/descent.h"
#include "input.h"

namespace {

using namespace diffdag;
using fuzz::Block;
using fuzz::Input;
using fuzz::shaped;

void demand(bool holds, const char *what) {
    if (holds) return;
    std::fprintf(stderr, "not so: %s\n", what);
    std::abort();
}

constexpr std::size_t FEW = 8;

// Pairs of conditions, and what holds them.
struct Given {
    std::size_t p, count;  // several pairs only of few variables, for the sake of time
    bool equal, constant;
    Block<double, 3> first, pooled, table, limits;
    Block<double, 2> rows;

    Given(Input &input, std::size_t most)
        : p(input.below(most + 1)), count(p <= FEW && input.chance(16) ? input.below(4) : 1), equal(input.chance(4)),
          constant(!input.chance(3)), first(shaped(input, count, p, p)), pooled(shaped(input, count, p, p)),
          table(shaped(input, count, PENALTIES, p)), limits(shaped(input, count, LIMITS, p)),
          rows(shaped(input, count, 2)) {
        fill_scatters(input);
        fill_rules(input);
    }

    Pairs pairs() const { return {first, pooled, rows, table, limits, equal, constant}; }

  private:
    double n_[2] = {40.0, 60.0};

    void fill_scatters(Input &input) {
        const std::size_t size = count * p * p;
        if (first.size() != size || pooled.size() != size) return;  // refused anyway
        const std::size_t kind = input.below(8), few = p / 2 + 1;
        Random random(input.raw<std::uint16_t>());
        for (std::size_t k = 0; k < count; ++k) {
            double *own = first.begin() + k * p * p, *both = pooled.begin() + k * p * p;
            if (kind == 7) {
                for (std::size_t l = 0; l < p * p; ++l) own[l] = input.number(1.0), both[l] = input.number(2.0);
                continue;
            }
            fuzz::add_rows(own, p, kind == 6 ? few : p + 3 + input.below(16), random, constant);
            std::copy_n(own, p * p, both);
            fuzz::add_rows(both, p, kind == 6 ? few : p + 3 + input.below(16), random, constant);
            if (kind < 3) continue;
            if (kind == 3) std::swap_ranges(own, own + p * p, both);  // the second condition is not positive definite
            fuzz::spoil(input, own, p, p);
            fuzz::spoil(input, both, p, p);
        }
    }

    // As the rules of a search have them, but for what is spoilt.
    void fill_rules(Input &input) {
        const double penalty = input.number(2.0), tightness = input.number(0.1);
        for (std::size_t k = 0; k < rows.size(); ++k) rows[k] = input.number(n_[k % 2]);
        const auto fill = [&](Block<double, 3> &block, std::size_t height, const auto &value) {
            if (p == 0) return;
            for (std::size_t k = 0; k < block.size(); ++k) block[k] = value(k / p % height, k % p);
            if (input.chance(4)) fuzz::spoil(input, block.begin(), block.size() / p, p);
        };
        const double whole = n_[0] + n_[1];
        const auto free = [&](std::size_t t) { return whole - static_cast<double>(t); };
        fill(table, PENALTIES, [&](std::size_t row, std::size_t t) {
            return row == FREE ? free(t) : row == INTERCEPT ? penalty / 2 : penalty;
        });
        fill(limits, LIMITS, [&](std::size_t row, std::size_t t) {
            const double share = n_[0] / whole, close = row == LOW || row == HIGH ? tightness : tightness / 2;
            if (row == PAYS) return -std::expm1(-2 * penalty / free(t));
            if (row == INTERCEPT_PAYS) return -std::expm1(-penalty / free(t));
            return row == LOW || row == CLOSE_LOW ? share - close : share + close;
        });
    }
};

// Orders that begin with the constant as a rule; now and then no orders at all.
Block<std::int64_t, 1> order_of(Input &input, const Given &given) {
    Block<std::int64_t, 1> order(shaped(input, given.p));
    for (std::size_t t = 0; t < order.size(); ++t) order[t] = static_cast<std::int64_t>(t);
    if (input.chance(2)) Random(input.byte()).shuffle(order);
    if (given.constant && !input.chance(8)) {
        std::int64_t *last = std::find(order.begin(), order.end(), static_cast<std::int64_t>(given.p) - 1);
        if (last != order.end()) std::rotate(order.begin(), last, last + 1);
    }
    if (order.size() > 0 && input.chance(32)) order[input.below(order.size())] = input.raw<std::int64_t>();
    return order;
}

bool is_order(Block<std::int64_t, 1> &order) {
    std::vector<bool> met(order.size());
    for (const std::int64_t v : order) met.at(static_cast<std::size_t>(v)) = true;
    return std::all_of(met.begin(), met.end(), [](bool one) { return one; });
}

Edge barred_of(Input &input, std::size_t p) {
    if (!input.chance(3)) return {};
    const auto one = [&] { return input.chance(8) ? input.count() : input.below(p + 1); };
    return std::pair{one(), one()};
}

// How many variables there may be: few as a rule, which takes little time, and now and then more than the limits beyond
// which the core takes other ways (EXHAUSTIVE, MANY).
std::size_t few_or_many(Input &input, std::size_t few) {
    return input.chance(128) ? MANY + 3 : input.chance(16) ? 2 * few : few;
}

struct Enough {};

// Ends the computation as Ctrl-C would, now and then.
Watch watch_of(Input &input) {
    const bool ends = input.chance(8);
    return Watch([ends](double share) {
        demand(share >= 0 && share <= 1, "a share of the work");
        if (ends) throw Enough{};
    });
}

void attack_walk(Input &input) {
    const Given given(input, few_or_many(input, 4));
    Block<bool, 2> before(shaped(input, given.p, given.p));
    Block<bool, 1> restless(shaped(input, given.p));
    fuzz::mark(input, before.begin(), before.size());
    fuzz::mark(input, restless.begin(), restless.size());
    Block<std::int64_t, 1> order = order_of(input, given);
    const Plan plan{input.number(2.0), {input.below(16), input.below(16)}, input.below(3),
                    input.chance(4) ? (given.p > FEW ? 1 : 1 + input.below(2)) : 0, input.chance(2),
                    input.chance(64) ? input.count() : input.below(4), input.number(1e-7), input.number(10.0),
                    input.raw<std::uint64_t>()};
    Watch watch = watch_of(input);
    walk(given.pairs(), before, plan, order, restless, barred_of(input, given.p), watch);
    demand(is_order(order), "a walk ends with an order");
}

void attack_read(Input &input) {
    const Given given(input, few_or_many(input, 5));
    Block<std::int64_t, 1> order = order_of(input, given);
    Block<double, 1> costs(shaped(input, given.p));
    Block<bool, 2> changed(shaped(input, given.p, given.p));
    Block<bool, 1> separate(shaped(input, given.p));
    const bool careful = input.chance(2);
    read_order(given.pairs(), order, careful, barred_of(input, given.p), costs, changed, separate);
}

void attack_weigh(Input &input) {
    const Given given(input, few_or_many(input, 5));
    Block<std::int64_t, 1> order = order_of(input, given);
    const std::size_t count = input.below(4);
    Block<std::int64_t, 2> edges(shaped(input, count, 2));
    Block<double, 1> rises(shaped(input, count));
    for (std::int64_t &one : edges)
        one = input.chance(64) ? input.raw<std::int64_t>() : static_cast<std::int64_t>(input.below(given.p + 1));
    weigh_changes(given.pairs(), order, edges, rises);
}

void attack_tabulate(Input &input) {
    const Given given(input, input.chance(32) ? 5 : 3);
    const std::size_t p = given.p - (given.constant && given.p > 0), sets = std::size_t{1} << p;
    Block<double, 2> costs(shaped(input, sets, p));
    Block<std::int64_t, 2> changes(shaped(input, sets, p));
    Watch watch = watch_of(input);
    tabulate_costs(given.pairs(), costs, changes, watch);
}

void attack_best(Input &input) {
    const std::size_t p = input.below(8);
    Block<double, 2> costs(shaped(input, std::size_t{1} << p, p));
    Block<bool, 2> before(shaped(input, p, p));
    Block<std::int64_t, 1> order(shaped(input, p));
    Block<double, 1> scores(shaped(input, std::size_t{1} << p));
    Random random(input.byte());
    for (double &cost : costs) cost = random.uniform();
    fuzz::spoil(input, costs.begin(), costs.size() / std::max<std::size_t>(p, 1), p);
    fuzz::mark(input, before.begin(), before.size());
    const double score = best_of_all(costs, before, order, scores);
    if (score < std::numeric_limits<double>::infinity()) demand(is_order(order), "the best is an order");
}

void attack_descent(Input &input) {
    const std::size_t q = input.below(13), way = input.below(3);
    Block<double, 3> grams(shaped(input, 2, q, q));
    Random random(input.byte());
    if (grams.size() == 2 * q * q)
        for (std::size_t k = 0; k < 2; ++k) {
            double *gram = grams.begin() + k * q * q;
            fuzz::add_rows(gram, q, input.chance(4) ? q / 2 : q + 4, random, false);
            fuzz::spoil(input, gram, q, q);
        }
    const int turns = input.chance(64) ? -input.byte() : static_cast<int>(input.below(12));
    const double one = input.number(1.0), two = input.number(0.5), tolerance = input.number(1e-6);
    if (way == 0) {
        Block<double, 2> gram(shaped(input, q, q));
        Block<double, 1> gradient(shaped(input, q)), values(shaped(input, q));
        std::copy_n(grams.begin(), std::min(gram.size(), grams.size()), gram.begin());
        for (double &number : gradient) number = input.number(1.0);
        for (double &number : values) number = input.chance(2) ? input.number(1.0) : 0.0;
        sweep(gram, gradient, values, one, turns);
    } else if (way == 1) {
        Block<double, 2> cross(shaped(input, 2, q)), slopes(shaped(input, 2, q));
        for (double &number : cross) number = input.number(1.0);
        fused_lasso(grams, cross, one, two, tolerance, turns, slopes);
    } else {
        Block<double, 1> share(shaped(input, 2));
        Block<double, 3> directions(shaped(input, 2, q, q));
        for (double &number : share) number = input.number(1.0);
        if (q > 0) fuzz::spoil(input, directions.begin(), directions.size() / q, q);
        fused_directions(grams, share, one, two, tolerance, turns, static_cast<int>(input.below(4)), directions);
    }
}

struct Target {
    const char *name;
    void (*attack)(Input &);
};
constexpr Target TARGETS[] = {{"walk", attack_walk},         {"read", attack_read}, {"weigh", attack_weigh},
                              {"tabulate", attack_tabulate}, {"best", attack_best}, {"descent", attack_descent}};

const Target &target() {
    const char *wanted = std::getenv("DIFFDAG_TARGET");
    for (const Target &one : TARGETS)
        if (wanted != nullptr && std::strcmp(one.name, wanted) == 0) return one;
    std::fprintf(stderr, "DIFFDAG_TARGET: one of");
    for (const Target &one : TARGETS) std::fprintf(stderr, " %s", one.name);
    std::fprintf(stderr, "\n");
    std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    static const Target &chosen = target();
    Input input(data, size);
    try {
        chosen.attack(input);
    } catch (const std::invalid_argument &) {  // refused
    } catch (const Enough &) {
    }
    return 0;
}
