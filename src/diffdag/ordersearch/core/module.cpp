// The Python face of the core: arrays in, arrays filled in. Nothing here holds the interpreter's lock while it works.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "../../_base/array_caster.h"
#include "calls.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace diffdag;
using Unlocked = nb::call_guard<nb::gil_scoped_release>;

// Called from inside a computation: let Python handle signals, and hear how far it is.
Watch watch_for(const nb::object &report) {
    return Watch([&report](double share) {
        nb::gil_scoped_acquire lock;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        if (!report.is_none()) report(share);
    });
}

void walk_watched(const Pairs &given, const Array<const bool, 2> &before, double unit,
                  const Array<std::int64_t, 1> &order, std::pair<std::size_t, std::size_t> steps, std::size_t sweeps,
                  std::size_t careful, bool thorough, std::size_t window, double grain, double far, std::uint64_t seed,
                  const Array<const bool, 1> &restless, const Edge &barred, const nb::object &report) {
    const Plan plan{unit, {steps.first, steps.second}, sweeps, careful, thorough, window, grain, far, seed};
    Watch watch = watch_for(report);
    nb::gil_scoped_release unlocked;
    walk(given, before, plan, order, restless, barred, watch);
}

void tabulate_watched(const Pairs &given, const Array<double, 2> &costs, const Array<std::int64_t, 2> &changes,
                      const nb::object &report) {
    Watch watch = watch_for(report);
    nb::gil_scoped_release unlocked;
    tabulate_costs(given, costs, changes, watch);
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "The search over orders, compiled.";
    // What is filled in must not be a converted copy.
    m.def("walk", &walk_watched, "pairs"_a, "before"_a, "unit"_a, "order"_a.noconvert(), "steps"_a, "sweeps"_a,
          "careful"_a, "thorough"_a, "window"_a, "grain"_a, "far"_a, "seed"_a, "restless"_a, "barred"_a.none(),
          "report"_a.none());
    m.def("read", &read_order, Unlocked(), "pairs"_a, "order"_a, "careful"_a, "barred"_a.none(),
          "costs"_a.noconvert(), "changed"_a.noconvert(), "separate"_a.noconvert());
    m.def("weigh", &weigh_changes, Unlocked(), "pairs"_a, "order"_a, "edges"_a, "rises"_a.noconvert());
    m.def("tabulate", &tabulate_watched, "pairs"_a, "costs"_a.noconvert(), "changes"_a.noconvert(), "report"_a.none());
    m.def("best_order", &best_of_all, Unlocked(), "costs"_a, "before"_a, "order"_a.noconvert(),
          "scores"_a.noconvert());
}
