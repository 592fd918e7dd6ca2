"""Commands, their options, and how errors are shown."""

import contextlib
import warnings
from collections.abc import Iterator
from importlib import resources
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
from ._demo import run_demo
from ._info import show_info
from ._simulate import Settings, run_simulation
from ._view import run_view

app = typer.Typer(no_args_is_help=True, help="Rigid-body dynamics of robots with JAX.")

RobotFile = Annotated[Path, typer.Argument(help="URDF or MJCF file.", show_default=False)]
FloatingBase = Annotated[bool, typer.Option(help="Let the base move freely.")]
Port = Annotated[int, typer.Option(min=1, max=65535, help="Where the viewer listens; the next free one is taken.")]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Do not open the browser.")]


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


@app.command()
def info(file: RobotFile, floating_base: FloatingBase = False) -> None:
    """Show what a robot file holds: joints, bodies, masses, limits, and what is doubtful or not modelled."""
    with _explained():
        model, messages = _load(file, floating_base)
        show_info(Console(), file.name, model, messages)


@app.command()
def demo(
    robot: Annotated[
        Path | None, typer.Option(help="URDF or MJCF file; an arm that comes with the package by default.")
    ] = None,
    floating_base: FloatingBase = False,
    batch: Annotated[int, typer.Option(min=1, help="Number of random states.")] = 1024,
    duration: Annotated[float, typer.Option(min=0.01, max=60.0, help="Length of the simulated motion [s].")] = 2.0,
    precision: Annotated[int, typer.Option(help="Bits of the floating-point numbers: 32 or 64.")] = 64,
    output: Annotated[Path, typer.Option(help="Where the plot goes.")] = Path("output/demo.png"),
    seed: Annotated[int, typer.Option(help="Of the random states.")] = 0,
) -> None:
    """Inverse and forward dynamics of a robot on a batch, with error and timing, and a simulated motion as a plot."""
    with _explained():
        if precision not in (32, 64):
            raise ValueError(f"--precision must be 32 or 64, got {precision}.")
        jax.config.update("jax_enable_x64", precision == 64)
        file = robot or Path(str(resources.files("jaxcfa") / "data" / "arm7.urdf"))
        console = Console()
        model = _loaded(console, file, floating_base)
        run_demo(console, file, model, batch=batch, duration=duration, output=output, seed=seed)


@app.command()
def view(
    file: RobotFile, floating_base: FloatingBase = False, port: Port = 8080, no_browser: NoBrowser = False
) -> None:
    """Show a robot in the browser, with sliders for its joints."""
    with _explained():
        console = Console()
        model = _loaded(console, file, floating_base)
        run_view(console, file, model, port=port, browser=not no_browser)


@app.command()
def simulate(
    file: RobotFile,
    floating_base: FloatingBase = False,
    seconds: Annotated[float, typer.Option(min=0.0, max=3600.0, help="Length of the motion [s].")] = 5.0,
    dt: Annotated[float, typer.Option(help="Length of a time step [s].")] = 1e-3,
    seed: Annotated[
        int | None,
        typer.Option(help="Of a random start; the neutral configuration otherwise.", show_default=False),
    ] = None,
    limits: Annotated[bool, typer.Option("--limits", help="Stop joints at the ends of their ranges.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Where the motion goes: .gif, .npz, or .mp4 with ffmpeg.", show_default=False)
    ] = None,
    view: Annotated[bool, typer.Option("--view", help="Play the motion in the browser.")] = False,
    port: Port = 8080,
    no_browser: NoBrowser = False,
) -> None:
    """Let a robot fall from rest, under gravity and the springs, damping and friction of its joints."""
    with _explained():
        console = Console()
        model = _loaded(console, file, floating_base)
        trajectory = run_simulation(console, file, model, Settings(seconds, dt, seed, limits), out)
        if view:
            run_view(console, file, model, port=port, browser=not no_browser, trajectory=trajectory)


def _loaded(console: Console, file: Path, floating_base: bool) -> Model:
    """The model of a file, after its warnings."""
    model, messages = _load(file, floating_base)
    for message in messages:
        console.print(f"[yellow]Warning:[/] {escape(message)}", highlight=False)
    return model


def _load(file: Path, floating_base: bool) -> tuple[Model, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load_model(file, floating_base=floating_base)
    return model, [str(warning.message) for warning in caught]


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Shows what is wrong with the input without a traceback."""
    try:
        yield
    except (ValueError, OSError, ImportError) as error:
        Console(stderr=True).print(f"[red]Error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
