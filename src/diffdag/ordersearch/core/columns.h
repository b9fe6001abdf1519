// Columns of inner products of candidates, kept while the order changes around them.
//
//     C_t[:, l] = A1[:, l] - sum over s < t of Y[s, l] Y[s, :]
//
// takes O(t p) to work out, and O(p) from C_{t-1} or C_{t+1}. It depends on who stands before t, not on their order:
// a swap at t changes C_{t+1} alone. So a column is kept with the position it belongs to, follows the position it is
// asked for, and steps back from a swap before it happens. One is kept for each of a few pairs of effect and cause,
// because an effect is asked about again and again while others pass by.
#pragma once

#include "view.h"

namespace diffdag {

class Columns {
  public:
    explicit Columns(std::size_t p) : p_(p) {}

    // C_t[:, l] for the variable at position t.
    const double *at(const View &view, std::size_t t, std::size_t l) {
        const std::size_t key = view.at(t) * p_ + l;
        const auto found = std::find(keys_.begin(), keys_.end(), key);
        const auto k = static_cast<std::size_t>(found - keys_.begin());
        const bool near = found != keys_.end() && (positions_[k] > t ? positions_[k] - t : t - positions_[k]) < t / 2;
        if (near) {
            follow(view, k, t);
            return columns_[k].data();
        }
        const std::size_t slot = found != keys_.end() ? k : new_slot();
        double *column = columns_[slot].data();
        std::copy_n(view.own[l], p_, column);
        subtract_rows(column, view.Y, l, view.Y, t, p_);
        keys_[slot] = key;
        positions_[slot] = t;
        return column;
    }

    // The variables at t and t + 1 are about to be exchanged.
    void before_swap(const View &view, std::size_t t) {
        for (std::size_t k = 0; k < positions_.size(); ++k)
            if (positions_[k] == t + 1) follow(view, k, t);
    }

    void clear() {
        keys_.clear();
        positions_.clear();
        next_ = 0;
    }

  private:
    static constexpr std::size_t MOST = 64;
    std::size_t p_, next_ = 0;
    std::vector<std::size_t> keys_, positions_;
    std::vector<Vector> columns_;

    void follow(const View &view, std::size_t k, std::size_t t) {
        const std::size_t l = keys_[k] % p_;
        double *column = columns_[k].data();
        for (; positions_[k] < t; ++positions_[k]) subtract(column, view.Y[positions_[k]][l], view.Y[positions_[k]], p_);
        for (; positions_[k] > t; --positions_[k])
            subtract(column, -view.Y[positions_[k] - 1][l], view.Y[positions_[k] - 1], p_);
    }

    std::size_t new_slot() {
        if (keys_.size() < MOST) {
            keys_.push_back(0);
            positions_.push_back(0);
            if (columns_.size() < keys_.size()) columns_.emplace_back(p_);
            return keys_.size() - 1;
        }
        next_ = (next_ + 1) % MOST;
        return next_;
    }
};

}  // namespace diffdag
