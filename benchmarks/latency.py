"""Latency of one state at a time: as JAX compiles it, as one function, and with the option for small loops."""

from functools import partial

from .case import Case, Contestant
from .chain import one_state
from .contestant import ONE_FUNCTION, MakeProblem, of_function
from .peers import of_peers
from .problem import Problem, with_states
from .quantities import FORWARD, FUNCTIONS, GRADIENT
from .robots import ROBOTS, example_robot, load
from .settings import Settings

TITLE = "Latency of one state at a time"
# As `jaxcfa.enable_low_latency` sets it.
OPTION = ("XLA_FLAGS", "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1000000")
CHAINS, NAMES = (7, 30, 1000), ("Panda", "G1")


def one_state_of(name: str) -> Problem:
    robot = ROBOTS[name]
    path = example_robot(robot.file)
    return with_states(load(path, robot.floating_base), "float64", None, path, robot.ends)


def cases(settings: Settings) -> list[Case]:
    problems: dict[str, MakeProblem] = {f"chain of {n}": partial(one_state, n) for n in CHAINS}
    problems |= {name: partial(one_state_of, name) for name in NAMES}

    def case(quantity: str, label: str) -> Case:
        make = problems[label]
        prepare = partial(of_function, FUNCTIONS[quantity], make)
        contestants = [
            Contestant("jaxcfa", prepare),
            Contestant(f"jaxcfa, {ONE_FUNCTION}", partial(prepare, ONE_FUNCTION)),
            Contestant("jaxcfa, small loops", prepare, environment=(OPTION,)),
        ]
        names = ("Pinocchio", "MuJoCo") if quantity == FORWARD else ("Pinocchio",)
        peers = of_peers(settings.sizes(names, ()), make, quantity, "float64")
        return Case(quantity, label, contestants + peers)

    labels = settings.sizes(tuple(problems), ("chain of 7",))
    return [case(quantity, label) for quantity in settings.sizes((FORWARD, GRADIENT), (FORWARD,)) for label in labels]
