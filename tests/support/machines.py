"""A small machine in the form of the light tunnel of the Causal Chambers."""

from __future__ import annotations

import numpy as np
import pandas as pd

TABLE = "light_tunnel_small.csv.gz"
ROWS = 300
SLOPES = {"eye": {"red": 2.0, "green": 3.0, "blue": 1.0}, "meter": {"red": 1.0, "green": 1.5}}


def simulate(rng, n, factors=None, **moved):
    """Three lights, a lamp that hardly matters, a sensor of light, one of current and one of an angle."""
    rows = pd.DataFrame(rng.uniform(0, 10, (n, 4)), columns=["red", "green", "blue", "lamp"])
    for name, by in moved.items():
        rows[name] += by
    for sensor, causes in SLOPES.items():
        factor = (factors or {}).get(sensor, 1.0)
        rows[sensor] = factor * sum(slope * rows[name] for name, slope in causes.items()) + rng.standard_normal(
            n
        )
    rows["eye"] += 0.01 * rows["lamp"]
    rows["angle"] = rows["lamp"] + rng.standard_normal(n)
    return rows.round(4)


def make_machine(parent):
    """A folder with a machine in the form of the light tunnel."""
    rng = np.random.default_rng(840_100)
    parts = {
        "reference": simulate(rng, 20 * 40),
        "t_eye": simulate(rng, ROWS, {"eye": 1 / 8}),
        "v_meter": simulate(rng, ROWS, {"meter": 4.7}),
        "red_mid": simulate(rng, ROWS, red=5),
        "bent": simulate(rng, ROWS, blue=5),
        "idle": simulate(rng, ROWS),
        "stuck": simulate(rng, ROWS).assign(angle=1023.0),
    }
    rows = pd.concat([part.assign(environment=name) for name, part in parts.items()])
    edges = [(cause, sensor) for sensor, causes in SLOPES.items() for cause in causes]
    edges += [("lamp", "eye"), ("lamp", "angle")]
    told = [("t_eye", "edge", *edge, "slope / ~8 (exposure time 3 -> 0)", "strong") for edge in edges[:3]]
    told += [("t_eye", "edge", "lamp", "eye", "slope / ~8 (exposure time 3 -> 0)", "negligible effect in both")]
    told += [("t_eye", "noise and mean", "", "eye", "noise sd / ~4.5", "strong")]
    told += [("v_meter", "edge", *edge, "slope x ~4.7 (reference voltage)", "strong") for edge in edges[3:5]]
    told += [("red_mid", "source distribution only", "", "red", "curved response, a little", "-")]
    told += [("bent", "source distribution + curved mechanism", "", "blue", "Malus", "-")]
    told += [("stuck", "saturated", "", "angle", "constant", "-")]
    told += [("elsewhere", "edge", "infrared", "eye", "a column that is not here", "strong")]
    place = parent / "secret-place"
    place.mkdir()
    rows.to_csv(place / TABLE, index=False)
    columns = ["environment", "what", "source", "target", "how", "visibility"]
    pd.DataFrame(told, columns=columns).to_csv(place / "truth.csv", index=False)
    pd.DataFrame(edges, columns=["source", "target"]).to_csv(place / "graph.csv", index=False)
    return place
