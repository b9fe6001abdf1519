"""What a result is to be examined with besides the fit itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from diffdag._base.checks import check_fits, check_number, check_option, check_whole, is_whole
from diffdag._base.errors import InputError
from diffdag._base.words import named

if TYPE_CHECKING:
    from diffdag.trust.resampling import Kind

STORED_ROWS = 150  # of each condition, to show in scatters
RESAMPLES = 200
PERMUTATIONS = 999
LEAST_RESAMPLES = 20


@dataclass(frozen=True)
class Assessment:
    """How a result is examined, as the user asked for it; None is left to the defaults."""

    resamples: int | None = None  # of both tables, for the confidence of each change
    fdr: float | None = None  # largest expected share of false edges
    permutations: int | None = None  # for the test of no change at all
    intervals: str | None = None  # "split": changes are found on some rows and measured on the others
    controls: int | None = None  # fits to random halves of one table, in which nothing differs
    stored_rows: int | None = None  # of each table, that the result may hold to show its edges
    journal: str | Path | None = None  # a folder that keeps finished resamples

    def __post_init__(self) -> None:
        check_fits("resamples", self.resamples, least=LEAST_RESAMPLES, none_ok=True)
        check_number("fdr", self.fdr, above=0, below=1, none_ok=True)
        if not (is_whole(self.permutations) and self.permutations == 0):
            check_fits("permutations", self.permutations, least=LEAST_RESAMPLES - 1, none_ok=True)
        check_fits("controls", self.controls, least=LEAST_RESAMPLES, none_ok=True)
        check_whole("stored_rows", self.stored_rows, least=0, none_ok=True)
        if self.intervals is not None:
            check_option("intervals", self.intervals, ("split",))
        journal = self.journal
        if journal is not None and not isinstance(journal, (str, Path)):
            raise InputError(named("journal"), f" must be the path of a folder; it is {journal!r}")
        if journal is not None and Path(journal).is_file():
            raise InputError(named("journal"), f" '{journal}' is a file; give a folder")

    @property
    def of_rows(self) -> list[str]:
        """Options that were given and take the rows of both conditions."""
        names = ("resamples", "fdr", "permutations", "intervals", "controls")
        return [name for name in names if getattr(self, name)]

    @property
    def fits(self) -> int:
        """Resamples to fit; a target for false edges asks for them, too."""
        if self.resamples is not None:
            return self.resamples
        return RESAMPLES if self.fdr is not None else 0

    @property
    def permuted(self) -> int:
        """Permutations of the global test: where resamples are asked for, unless the user says otherwise."""
        if self.permutations is not None:
            return self.permutations
        return PERMUTATIONS if self.fits else 0

    @property
    def rows_shown(self) -> int:
        """Rows of each table that the result may hold."""
        return STORED_ROWS if self.stored_rows is None else self.stored_rows

    @property
    def fits_of(self) -> dict[Kind, int]:
        """How many resamples of each kind; every second one of the bootstrap varies the specification."""
        halves = self.fits // 8 * 2
        return {"bootstrap": self.fits - halves, "half": halves} if self.fits else {}

    def journal_of(self, kind: Kind) -> Path | None:
        """Where finished fits of one kind are kept."""
        return None if self.journal is None else Path(self.journal) / f"resamples-{kind}.journal"
