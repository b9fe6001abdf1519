from diffdag._base.errors import DiffDagWarning as DiffDagWarning
from diffdag._base.errors import InputError as InputError
from diffdag.conditions import fit_conditions as fit_conditions
from diffdag.estimator import DifferenceDAG as DifferenceDAG
from diffdag.model.datasets import load_sachs_pair as load_sachs_pair
from diffdag.model.sem import LinearSEM as LinearSEM
from diffdag.model.simulate import simulate_pair as simulate_pair
from diffdag.precision.api import precision_difference as precision_difference
from diffdag.refits import settings_path as settings_path
from diffdag.reproduce.methods.compare import compare_methods as compare_methods
from diffdag.result import ConditionsResult as ConditionsResult
from diffdag.result import DifferenceResult as DifferenceResult
from diffdag.result import load as load
from diffdag.tables.groups import split_groups as split_groups
from diffdag.tables.moments import Moments as Moments
from diffdag.tables.readers.files import read_table as read_table

__version__: str
