"""Commands, their options, and how errors are shown."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import jax
import typer
from rich.console import Console
from rich.markup import escape

from .. import __version__
from ..io import load_model
from ..latency import enable_low_latency
from ..model import Model
from ..model._model import require_single
from ._command_line import command_line, own_command
from ._demo import own_arm, run_demo
from ._facts import Facts, doubtful_limits, facts_of
from ._ground import Ground
from ._info import show_info
from ._motion_files import Output
from ._optimise import Settings as OptimisationSettings, run_optimisation
from ._progress import quietly, warn
from ._reach import Target, reach_facts, run_ik, show_reach
from ._simulate import Settings, run_simulation
from ._start import rest_of
from ._view import Page, run_view

_EXIT_CODES = (
    "Exit codes: 0 if what was asked for was done or found; 1 if not, or if a file, name or number makes no sense; "
    "2 if the command line is wrong."
)
_CACHE = (
    "Compiled programs are kept in the user's folder for caches, so that the same command starts sooner the next time; "
    "JAX_ENABLE_COMPILATION_CACHE=0 switches that off."
)
_LARGEST_SEED = 2**31 - 1

app = typer.Typer(
    no_args_is_help=True, help="Rigid-body dynamics of robots with JAX.", epilog=f"{_EXIT_CODES} {_CACHE}"
)

RobotFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="URDF or MJCF file, or a saved model (.npz).", show_default=False)
]
FrameName = Annotated[
    str, typer.Option("--frame", help="Frame or body, as `jaxcfa info` names it.", show_default=False)
]
Position = Annotated[
    tuple[float, float, float],
    typer.Option("--target", metavar="X Y Z", help="Where the frame is to be, in world axes (m).", show_default=False),
]
Angles = Annotated[
    tuple[float, float, float] | None,
    typer.Option(
        "--rpy", metavar="R P Y", help="Its roll, pitch and yaw there (rad), if they matter.", show_default=False
    ),
]
Start = Annotated[
    str | None,
    typer.Option(
        help="Keyframe of the file to begin at; by default the first, or else as the robot stands in an MJCF file if "
        "its ranges allow that, or else the middle of all ranges.",
        show_default=False,
    ),
]
Rest = Annotated[
    str | None, typer.Option("--start", help="Keyframe of the file to begin at; as it stands there by default.")
]
Seed = Annotated[int | None, typer.Option(min=0, max=_LARGEST_SEED, help="Of a random start.", show_default=False)]
Out = Annotated[
    Path | None, typer.Option(help="Where the motion goes: .gif, .html, .npz, or .mp4 with ffmpeg.", show_default=False)
]
Json = Annotated[
    bool, typer.Option("--json", help="As JSON for other programs; null is what is infinite or not there.")
]
View = Annotated[bool, typer.Option("--view", help="Play the motion in the browser.")]
FloatingBase = Annotated[bool, typer.Option(help="Let the base move freely.")]
Port = Annotated[int, typer.Option(min=1, max=65535, help="Where the viewer listens; the next free one is taken.")]
Host = Annotated[
    str,
    typer.Option(help="The address where the viewer listens; 0.0.0.0 lets the whole network see and move the robot."),
]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Do not open the browser.")]
PackageDirs = Annotated[
    list[Path] | None,
    typer.Option("--package-dir", help="Folder that holds packages with meshes, or is one.", show_default=False),
]


def _version(shown: bool) -> bool:
    if shown:
        Console().print(__version__)
        raise typer.Exit
    return shown


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Rigid-body dynamics of robots with JAX."""
    with contextlib.suppress(ValueError):  # in a process that has computed something already
        enable_low_latency()


@app.command(epilog=_EXIT_CODES)
def info(
    file: RobotFile,
    floating_base: FloatingBase = False,
    as_json: Json = False,
) -> None:
    """Show what a robot file holds: joints, bodies, masses, limits, and what is doubtful or not modelled."""
    with _explained():
        jax.config.update("jax_enable_x64", True)  # numbers as the file has them
        console = Console()
        model, messages = _load(Console(stderr=True) if as_json else console, file, floating_base)
        messages += doubtful_limits(model)
        if as_json:
            _echo(facts_of(file.name, model, messages))
        else:
            show_info(console, file.name, model, messages)


@app.command(epilog=_EXIT_CODES)
def demo(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="URDF or MJCF file; an arm that comes with the package by default.",
            show_default=False,
        ),
    ] = None,
    robot: Annotated[Path | None, typer.Option(help="The same as FILE.", hidden=True)] = None,
    floating_base: FloatingBase = False,
    batch: Annotated[int, typer.Option(min=1, help="Number of random states.")] = 1024,
    duration: Annotated[float, typer.Option(min=0.01, max=60.0, help="Length of the simulated motion (s).")] = 2.0,
    precision: Annotated[int, typer.Option(help="Bits of the floating-point numbers: 32 or 64.")] = 64,
    output: Annotated[Path, typer.Option("--out", "--output", help="Where the plot goes.")] = Path("output/demo.png"),
    seed: Annotated[int, typer.Option(min=0, max=_LARGEST_SEED, help="Of the random states.")] = 0,
    package_dir: PackageDirs = None,
) -> None:
    """Inverse and forward dynamics of a robot on a batch, with error and timing, and a simulated motion as a plot."""
    with _explained():
        if precision not in (32, 64):
            raise ValueError(f"--precision must be 32 or 64, got {precision}.")
        jax.config.update("jax_enable_x64", precision == 64)
        chosen = file or robot or own_arm()
        console = Console()
        model = _loaded(console, chosen, floating_base)
        run_demo(console, chosen, model, package_dir or (), batch=batch, duration=duration, output=output, seed=seed)


@app.command(epilog=_EXIT_CODES)
def view(
    file: RobotFile,
    floating_base: FloatingBase = False,
    start: Rest = None,
    package_dir: PackageDirs = None,
    port: Port = 8080,
    host: Host = "127.0.0.1",
    no_browser: NoBrowser = False,
) -> None:
    """Show a robot in the browser, with sliders for its joints."""
    with _explained():
        console = Console()
        model = _loaded(console, file, floating_base)
        page, q = Page(host, port, not no_browser), rest_of(model, start, None)
        run_view(console, file, model, page=page, package_dirs=package_dir or (), motion=q)


@app.command(epilog=_EXIT_CODES)
def simulate(
    file: RobotFile,
    floating_base: FloatingBase = False,
    seconds: Annotated[float, typer.Option(min=0.0, max=3600.0, help="Length of the motion (s).")] = 5.0,
    dt: Annotated[float, typer.Option(help="Length of a time step (s).")] = 1e-3,
    start: Rest = None,
    seed: Seed = None,
    limits: Annotated[bool, typer.Option("--limits", help="Stop joints at the ends of their ranges.")] = False,
    no_constraints: Annotated[
        bool, typer.Option("--no-constraints", help="Leave out what the file says of closed loops and couplings.")
    ] = False,
    ground: Annotated[
        bool,
        typer.Option(
            "--ground",
            help="Put it on the ground, that of the file or z = 0, with friction; robots and objects touch, too.",
        ),
    ] = False,
    feet: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="With the ground: the frames or bodies that alone touch it, as in left_foot,right_foot.",
            show_default=False,
        ),
    ] = None,
    drop: Annotated[
        float | None,
        typer.Option(help="With the ground: how high above it the lowest point begins (m).", show_default=False),
    ] = None,
    hold: Annotated[
        bool, typer.Option("--hold", help="Hold the joints where they begin, by stiff springs and dampers.")
    ] = False,
    out: Out = None,
    package_dir: PackageDirs = None,
    view: View = False,
    port: Port = 8080,
    host: Host = "127.0.0.1",
    no_browser: NoBrowser = False,
) -> None:
    """Let a robot fall from rest, under gravity and the springs, damping and friction of its joints.

    Nothing hits anything without --ground, and the links of one robot never hit each other.
    """
    with _explained():
        console = Console()
        touched = Ground(feet, drop) if ground or feet is not None or drop is not None else None
        if touched is not None:
            jax.config.update("jax_enable_x64", True)  # contacts are stiff
        model = _loaded(console, file, floating_base)
        settings, dirs = Settings(seconds, dt, start, seed, limits, no_constraints, hold, touched), package_dir or ()
        page = Page(host, port, not no_browser).checked() if view else None
        trajectory, contacts = run_simulation(console, file, model, settings, Output(out, dirs))
        if page is not None:
            run_view(console, file, model, page=page, package_dirs=dirs, motion=trajectory, contacts=contacts)


@app.command(epilog=_EXIT_CODES)
def ik(
    file: RobotFile,
    frame: FrameName,
    target: Position,
    rpy: Angles = None,
    floating_base: FloatingBase = False,
    start: Start = None,
    seed: Seed = None,
    as_json: Json = False,
    package_dir: PackageDirs = None,
    view: Annotated[bool, typer.Option("--view", help="Show the configuration in the browser.")] = False,
    port: Port = 8080,
    host: Host = "127.0.0.1",
    no_browser: NoBrowser = False,
) -> None:
    """Find the configuration that brings a frame to a point, within the joints' ranges, by inverse kinematics.

    If there is none, the nearest one that was found is shown.
    """
    with _explained():
        jax.config.update("jax_enable_x64", True)
        console = Console(stderr=as_json)
        page = Page(host, port, not no_browser).checked() if view else None
        model = _loaded(console, file, floating_base)
        goal = Target(frame, target, rpy)
        found = run_ik(console, model, goal, start, seed)
        if as_json:
            _echo(reach_facts(file.name, model, goal, found))
        else:
            show_reach(console, model, goal, found)
        if page is not None:
            run_view(console, file, model, page=page, package_dirs=package_dir or (), motion=found.q)
    if not found.is_reached:
        raise typer.Exit(1)


@app.command(epilog=_EXIT_CODES)
def optimise(
    file: RobotFile,
    frame: FrameName,
    target: Position,
    rpy: Angles = None,
    seconds: Annotated[float, typer.Option(min=0.01, max=3600.0, help="Length of the motion (s).")] = 2.0,
    steps: Annotated[int, typer.Option(min=2, max=10_000, help="Of the motion.")] = 50,
    start: Start = None,
    seed: Seed = None,
    out: Out = None,
    package_dir: PackageDirs = None,
    view: View = False,
    port: Port = 8080,
    host: Host = "127.0.0.1",
    no_browser: NoBrowser = False,
) -> None:
    """Move a frame to a point, at rest in the end, with small efforts and within all limits, by optimal control.

    Joints that do not move the frame are held, and the base of a robot that floats.

    Loops that the file closes stay closed.

    The motion is written and played only if the problem was solved.
    """
    with _explained():
        jax.config.update("jax_enable_x64", True)
        console = Console()
        model = _loaded(console, file, False)
        settings, dirs = OptimisationSettings(seconds, steps, start, seed), package_dir or ()
        page = Page(host, port, not no_browser).checked() if view else None
        trajectory = run_optimisation(console, file, model, Target(frame, target, rpy), settings, Output(out, dirs))
        if trajectory is not None and page is not None:
            run_view(console, file, model, page=page, package_dirs=dirs, motion=trajectory)
    if trajectory is None:
        raise typer.Exit(1)


app.command("optimize", hidden=True, epilog=_EXIT_CODES)(optimise)


def _echo(facts: Facts) -> None:
    """Prints what a machine reads."""
    typer.echo(json.dumps(facts, indent=1, allow_nan=False))


def _loaded(console: Console, file: Path, floating_base: bool) -> Model:
    """The model of a file, after the beginnings of its warnings."""
    model, messages = _load(console, file, floating_base)
    for message in messages:
        first, *others = message.splitlines()
        rest = f"\nSee all of it with: {command_line(*own_command(), 'info', str(file))}" if others else ""
        warn(console, first.removesuffix(":") + rest, soft_wrap=True)
    return model


def _load(console: Console, file: Path, floating_base: bool) -> tuple[Model, list[str]]:
    """The model of a file, and its warnings."""
    with quietly(console, f"Reading {file.name}") as caught:
        model = load_model(file, floating_base=floating_base)
    require_single(model, "The jaxcfa command", f"masses in {file.name}")
    return model, [str(warning.message) for warning in caught]


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Shows what is wrong with the input without a traceback."""
    try:
        yield
    except BrokenPipeError:  # nobody reads on, as after `| head`: Typer ends it without a word
        raise
    except (ValueError, OSError, ImportError, MemoryError, jax.errors.JaxRuntimeError) as error:
        text = str(error)
        if isinstance(error, jax.errors.JaxRuntimeError):
            if "RESOURCE_EXHAUSTED" not in text:
                raise
            text = f"There is not enough memory for this; take fewer at once. ({text.splitlines()[0]})"
        Console(stderr=True).print(f"[red]Error:[/] {escape(text)}", highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
