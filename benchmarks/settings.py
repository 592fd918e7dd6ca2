"""What the command line decides."""

import dataclasses
import os


@dataclasses.dataclass(frozen=True)
class Settings:
    """Options of a run.

    **Fields:** `smoke`: tiny sizes, to see that everything runs. `repetitions`: samples per measurement, at most.
    `seconds`: time for all samples of one contestant in one case [s]; one whose samples take longer has three, or one
    alone that takes more than 5 s. `compile_limit`: time until a contestant must be ready, imports included [s].
    `cap`: time for one run [s]; a contestant that is expected to take longer is dropped for larger sizes. `methods`:
    names of the algorithms to measure; all if empty. `together`: how many contestants are prepared at once.
    """

    smoke: bool = False
    repetitions: int = 15
    seconds: float = 0.5
    compile_limit: float = 120.0
    cap: float = 10.0
    methods: tuple[str, ...] = ()
    together: int = dataclasses.field(default_factory=lambda: max(2, 3 * (os.cpu_count() or 1) // 4))

    def sizes(self, full: tuple, smoke: tuple) -> tuple:
        """The sizes of a benchmark."""
        return smoke if self.smoke else full

    def chosen(self, functions: dict) -> dict:
        """The algorithms to measure, of those given by name; one in a smoke test."""
        names = [name for name in functions if name in self.methods] or list(functions)
        return {name: functions[name] for name in names[: 1 if self.smoke else None]}
