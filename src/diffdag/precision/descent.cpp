// The Python face of coordinate descent: arrays in, arrays filled in, without the interpreter's lock.
#include "descent.h"

#include "../_base/array_caster.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace diffdag;
using Unlocked = nb::call_guard<nb::gil_scoped_release>;

}  // namespace

NB_MODULE(_descent, m) {
    m.doc() = "Coordinate descent, compiled.";
    m.def("sweep", &sweep, Unlocked(), "gram"_a, "gradient"_a.noconvert(), "values"_a.noconvert(), "penalty"_a,
          "count"_a);
    m.def("fused_lasso", &fused_lasso, Unlocked(), "grams"_a, "cross"_a, "sparsity"_a, "fusion"_a, "tolerance"_a,
          "sweeps"_a, "slopes"_a.noconvert());
    m.def("fused_directions", &fused_directions, Unlocked(), "grams"_a, "share"_a, "slack"_a, "wide"_a, "tolerance"_a,
          "sweeps"_a, "widenings"_a, "directions"_a.noconvert());
}
