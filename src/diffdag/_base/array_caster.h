// Arrays of Python as arguments of C++.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "array.h"

template <typename Number, std::size_t dimensions>
struct nanobind::detail::type_caster<diffdag::Array<Number, dimensions>> {
    using Given = nanobind::ndarray<Number, nanobind::ndim<dimensions>, nanobind::c_contig, nanobind::device::cpu>;
    using Plain = diffdag::Array<Number, dimensions>;
    NB_TYPE_CASTER(Plain, make_caster<Given>::Name)

    bool from_python(handle source, std::uint32_t flags, cleanup_list *cleanup) noexcept {
        if (!given_.from_python(source, flags, cleanup)) return false;
        value.data = given_.value.data();
        for (std::size_t k = 0; k < dimensions; ++k) value.shape[k] = given_.value.shape(k);
        return true;
    }

  private:
    make_caster<Given> given_;  // holds the array, or a converted copy, during the call
};
