"""`load_model` finds out what kind of file it has."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import assert_close
from jaxcfa import forward_dynamics
from jaxcfa.io import load_model
from urdf_text import LIMIT, one_joint

URDF = one_joint(LIMIT)
MJCF = """<mujoco><option gravity="0 0 -1"/><worldbody><body name="body"><joint name="joint"/><geom size="1"/></body>
</worldbody></mujoco>"""


@pytest.mark.parametrize("text", [URDF, MJCF])
@pytest.mark.parametrize("as_bytes", [False, True])
def test_text(text, as_bytes):
    model = load_model(text.encode() if as_bytes else text, dtype="float32")
    assert model.joint_names == ("joint",)
    assert model.dtype == np.float32


@pytest.mark.parametrize("text", [URDF, MJCF])
def test_file_with_any_name(tmp_path, text):
    path = tmp_path / "robot.xml"
    path.write_text(text)
    assert load_model(path).joint_names == load_model(str(path)).joint_names == ("joint",)


@pytest.mark.parametrize(("text", "own"), [(URDF, -9.81), (MJCF, -1.0)])
def test_gravity(text, own):
    assert_close(load_model(text).gravity, np.array([0.0, 0.0, own]))
    assert_close(load_model(text, gravity=(1.0, 2.0, 3.0)).gravity, np.array([1.0, 2.0, 3.0]))
    for wrong in (1.0, (0.0, 1.0), (0.0, 0.0, np.nan)):
        with pytest.raises(ValueError, match=r"gravity must (have shape \(3,\)|be finite)"):
            load_model(text, gravity=wrong)


@pytest.mark.parametrize("text", [URDF, MJCF.replace('<joint name="joint"/>', "")])
def test_floating_base(text):
    assert load_model(text, floating_base=True).nv == 6 + (text is URDF)


@pytest.mark.parametrize(
    "text", [URDF, MJCF.replace("</body>", '<body pos="0 0 1"><geom size="1"/><site name="s"/></body></body>')]
)
def test_within_functions_that_are_traced(text):
    """The file's numbers are constants of the program."""

    def accelerations(q):
        return forward_dynamics(load_model(text), q, q, q)

    q = jnp.array([0.3])
    assert jax.eval_shape(accelerations, q).shape == (1,)
    assert_close(jax.jit(accelerations)(q), accelerations(q))


@pytest.mark.parametrize("text", ["<sdf/>", "<Robot/>", "<html><robot/></html>", "<mujocoinclude/>"])
def test_other_formats(text):
    with pytest.raises(ValueError, match=r"is <.*>; give URDF"):
        load_model(text)


def test_bytes_in_an_encoding_that_mujoco_does_not_read():
    with pytest.raises(ValueError, match=r"the content is binary\. Give MJCF"):
        load_model(MJCF.encode("utf-16"))
