"""Changing the parameters of one joint or body."""

import dataclasses
import inspect
import operator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..joints import AbstractJoint
from ..typing import NameOrNumber
from ._given import (
    Numbers,
    as_placement,
    check_quaternions_have_no_range,
    check_spring,
    given_com,
    given_coordinates,
    given_inertia,
    given_mass,
    is_concrete,
)
from ._inertia_checks import warn_of_inertia
from ._layout import PARAMETERS
from ._model import Model, joint_part, require_single, stacked_joint, suggestion
from ._parts import JointPart


def with_joint(model: Model, joint: NameOrNumber, **parameters: Any) -> Model:
    """The model with other parameters of one joint, which `model.joint(joint)` shows.

    ```python
    stiff = jaxcfa.with_joint(model, "elbow", stiffness=40.0, damping=2.0, lower=-1.0, upper=1.0)
    ```

    **Arguments:** `joint`: name or number; of one of the joints in a composite joint, its name. `parameters`, all of
    which may be traced:

    - `armature` [kg m^2, kg], `damping` [N m s/rad, N s/m], `friction_loss` [N m, N], `stiffness` [N m/rad, N/m],
      `velocity_limit` [rad/s, m/s], `effort_limit` [N m, N], `stop_frequency` [rad/s]: one number, or one for each
      degree of freedom; a stiffness may be negative, as of a spring that pushes away. `lower`, `upper`,
      `spring_reference` [rad, m]: one number, or one for each configuration coordinate; quaternions have no limits.
    - `placement` of the joint's frame in the parent: a `Transform`, a 4 x 4 matrix, or a translation [m]; of composite
      joints as a whole only.
    - the arrays of the joint itself, such as `axis` or `pitch`.

    **Raises:** `ValueError` for an unknown joint or parameter, wrong shapes, invalid values, and a batch of models.
    """
    require_single(model, "with_joint")
    part = joint_part(model, joint)
    name = f"joint {part.name!r}"
    group, place = model.topology.place_in_groups(part.body)
    own = _own_parameters(stacked_joint(model.joints[group], part))
    for key, value in parameters.items():
        if key in PARAMETERS:
            check_quaternions_have_no_range(stacked_joint(model.joints[group], part), key, value, name)
            model = _with_rows(model, part, key, value, name)
        elif key == "placement":
            if part.place is not None:
                whole = model.joint_names[part.body]
                raise ValueError(f"{part.name!r} is part of the joint {whole!r}, placed as a whole; give that one.")
            pose = as_placement(value, model.dtype, name)
            placement = jax.tree.map(lambda x, y: jnp.asarray(x).at[part.body].set(y), model.placement, pose)
            model = dataclasses.replace(model, placement=placement)
        elif key in own:
            changed = _with_own_value(stacked_joint(model.joints[group], part), place, key, value, f"{key} of {name}")
            model = eqx.tree_at(lambda x: stacked_joint(x.joints[group], part), model, changed)
        else:
            known = (*PARAMETERS, *(("placement",) if part.place is None else ()), *own)
            raise ValueError(f"Unknown parameter {key!r} of {name}; {suggestion(key, known)}")
    _check_range(model, part, name)
    _check_own_spring(model, part, name)
    if any(key in own for key in parameters):
        _check_joint(stacked_joint(model.joints[group], part), place)
    return model


def _with_rows(model: Model, part: JointPart, key: str, value: Numbers, what: str) -> Model:
    """The model with other values of the coordinates of one joint."""
    parameter = PARAMETERS[key]
    rows = part.q if parameter.letters == "nq" else part.v
    array = given_coordinates(key, value, rows.stop - rows.start, model.dtype, what)
    where = operator.attrgetter(parameter.place)
    return eqx.tree_at(where, model, jnp.asarray(where(model)).at[rows].set(array))


def _own_parameters(joint: AbstractJoint) -> tuple[str, ...]:
    """The fields of a joint that are arrays."""
    return tuple(field.name for field in dataclasses.fields(joint) if hasattr(getattr(joint, field.name), "shape"))


def _with_own_value(joint: AbstractJoint, place: int, key: str, value: Numbers, what: str) -> AbstractJoint:
    """Stacked joints of which one has another value of a field, converted as the joint type does it."""
    old = getattr(joint, key)
    (field,) = (field for field in dataclasses.fields(joint) if field.name == key)
    convert = field.metadata.get("converter", np.asarray)
    array = jnp.asarray(convert(value) if is_concrete(value) else value, old.dtype)
    if array.shape != old.shape[1:]:
        raise ValueError(f"The {what} must have shape {old.shape[1:]}, got {array.shape}.")
    if is_concrete(array) and not np.all(np.isfinite(array)):
        raise ValueError(f"The {what} must be finite, got {np.asarray(array).tolist()}.")
    return eqx.tree_at(operator.attrgetter(key), joint, jnp.asarray(old).at[place].set(array))


def _check_joint(joint: AbstractJoint, place: int) -> None:
    """Raises what the constructor has to say about one of stacked joints, if it takes the fields and they are known."""
    if not is_concrete(joint):
        return
    one = jax.tree.map(lambda x: np.asarray(x)[place, ...], joint)
    fields = {field.name: getattr(one, field.name) for field in dataclasses.fields(one)}
    if set(inspect.signature(type(one).__init__).parameters) == {"self", *fields}:
        type(one)(**fields)


def _check_range(model: Model, part: JointPart, name: str) -> None:
    rows = part.q
    lower, upper = model.limits.lower, model.limits.upper
    if is_concrete(lower, upper) and np.any(np.asarray(lower)[rows] > np.asarray(upper)[rows]):
        raise ValueError(
            f"The lower limit of {name} exceeds the upper: {np.asarray(lower)[rows].tolist()}, "
            f"{np.asarray(upper)[rows].tolist()}."
        )


def _check_own_spring(model: Model, part: JointPart, name: str) -> None:
    reference, stiffness = model.spring_reference, model.stiffness
    if is_concrete(reference, stiffness):
        own = stacked_joint(model.joints[model.topology.place_in_groups(part.body)[0]], part)
        check_spring(own, np.asarray(reference)[part.q], np.asarray(stiffness)[part.v], name)


def with_body(
    model: Model,
    body: NameOrNumber,
    *,
    mass: ArrayLike | None = None,
    com: Numbers | None = None,
    inertia: Numbers | None = None,
) -> Model:
    """The model with another mass, centre of mass or inertia of one body, which `model.body(body)` shows.

    What is not given stays: another mass alone changes neither the centre of mass nor the inertia about it.

    **Arguments:** `body`: name or number. `mass` [kg]; `com` (3,), in body axes [m]; `inertia` [kg m^2], about the
    centre of mass in body axes: a 3 x 3 matrix, three principal moments, or one number for all three. They may be
    traced.

    **Raises:** `ValueError` for an unknown body, wrong shapes, invalid values, and a batch of models; and warns of an
    inertia that no rigid body has, unless it is traced.
    """
    require_single(model, "with_body")
    number = model.body_index(body)
    what, dtype = f"body {model.body_names[number]!r}", model.dtype
    given = {
        "mass": None if mass is None else given_mass(mass, dtype, what),
        "com": None if com is None else given_com(com, dtype, what),
        "inertia": None if inertia is None else given_inertia(inertia, dtype, what),
    }
    if given["inertia"] is not None and is_concrete(given["inertia"]):
        warn_of_inertia(given["inertia"], what)
    changes: dict = {
        field: jnp.asarray(getattr(model, field)).at[number].set(value)
        for field, value in given.items()
        if value is not None
    }
    return dataclasses.replace(model, **changes)
