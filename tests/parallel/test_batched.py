"""Large batches in pieces and over devices, against `jax.vmap`."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import jaxcfa
from helpers import assert_close
from jaxcfa import batched, device_mesh, spread

LENGTH = 21  # no multiple of the pieces, nor of the devices


@pytest.fixture(scope="module")
def model():
    return jaxcfa.chain(3)


@pytest.fixture(scope="module")
def states():
    return tuple(jnp.asarray(x) for x in np.random.default_rng(0).normal(size=(3, LENGTH, 3)))


def energy(model, q, v, tau):
    """A cheap function of a state with several results."""
    return {"energy": jaxcfa.potential_energy(model, q) + v @ tau, "lever": (jnp.cos(q) * model.mass,)}


@pytest.mark.parametrize(("piece", "devices"), [(1, None), (20, None), (21, 3), (2, 8), (100, 8)])
def test_values_and_gradients_are_those_of_vmap(model, states, piece, devices):
    mesh = None if devices is None else device_mesh("batch", devices=jax.devices()[:devices])
    axes = (None, 0, 0, 0)

    def total(over_batch, model, *states):
        found = over_batch(energy, axes)(model, *states)
        return jnp.sum(found["energy"] ** 2) + jnp.sum(found["lever"][0]), found

    def results(over_batch):
        return jax.jit(jax.value_and_grad(lambda *x: total(over_batch, *x), (0, 1, 2, 3), has_aux=True, allow_int=True))

    def in_pieces(function, axes):
        return batched(function, axes, piece=piece, mesh=mesh)

    assert_close(results(in_pieces)(model, *states), results(jax.vmap)(model, *states), rtol=1e-12)


def test_models_and_pytrees_have_batch_axes_too(states):
    models = jax.vmap(lambda mass: jaxcfa.with_body(jaxcfa.chain(3), "link2", mass=mass))(jnp.linspace(1, 2, LENGTH))

    def function(model, state):
        return energy(model, *state)

    mesh = device_mesh("a", "b", shape=(4, 2))
    found = jax.jit(batched(function, piece=2, mesh=mesh))(models, states)
    assert_close(found, jax.vmap(function)(models, states), rtol=1e-12)


def test_derivatives_beside_random_keys():
    x, keys = jnp.linspace(0, 1, LENGTH), jax.random.split(jax.random.key(0), LENGTH)

    def total(x):
        values, new_keys = batched(lambda x, key: (jnp.sin(x), jax.random.fold_in(key, 1)))(x, keys)
        return jnp.sum(values), new_keys

    slope, _ = jax.grad(total, has_aux=True)(x)
    assert_close(slope, np.cos(x))


def test_forward_mode_second_derivatives_and_nesting(model, states):
    def total(over_batch, scale):
        return jnp.sum(over_batch(lambda q: jnp.sum(jnp.sin(scale * q)) ** 2)(states[0]))

    def in_pieces(function):
        return batched(function, piece=8, mesh=device_mesh("batch"))

    for derivative in (jax.jacfwd, jax.hessian, lambda f: jax.jacrev(jax.jacfwd(f))):
        found, expected = (derivative(lambda s, o=over: total(o, s))(0.7) for over in (in_pieces, jax.vmap))
        assert_close(found, expected, rtol=1e-12)
    scales = jnp.linspace(0, 1, 3)
    found, expected = (jax.vmap(lambda s, o=over: total(o, s))(scales) for over in (in_pieces, jax.vmap))
    assert_close(found, expected, rtol=1e-12)


def test_memory_is_that_of_a_piece():
    """In reverse mode as well."""

    def memory(over_batch):
        def waves(x):
            return jax.lax.fori_loop(0, 50, lambda k, x: jnp.sin(x) * x, x)

        total = jax.grad(lambda x: jnp.sum(over_batch(waves)(x)))
        return jax.jit(total).lower(jnp.zeros((4096, 4))).compile().memory_analysis().temp_size_in_bytes

    assert memory(lambda f: batched(f, piece=64)) < memory(jax.vmap) / 3


def test_results_stay_on_their_devices(model):
    mesh = device_mesh("batch")
    q = spread(jnp.zeros((16, 3)), mesh, "batch")
    found = jax.jit(batched(lambda q: jaxcfa.potential_energy(model, q), mesh=mesh))(q)
    assert {shard.data.shape for shard in found.addressable_shards} == {(2,)}
    assert len({shard.device for shard in found.addressable_shards}) == 8


def test_each_device_has_some_of_a_batch_of_models(model):
    mesh = device_mesh("batch")
    models = jax.vmap(lambda mass: jaxcfa.with_body(model, 0, mass=mass))(jnp.linspace(1.0, 2.0, 16))
    spread_models = spread(models, mesh, "batch")
    assert {x.addressable_shards[0].data.shape[0] for x in jax.tree.leaves(spread_models)} == {2}
    assert_close(spread_models.mass, models.mass, rtol=0)
    with pytest.raises(ValueError, match="A batch of 9 models cannot be cut into 8 equal parts"):
        spread(jax.tree.map(lambda x: x[:9], models), mesh, "batch")


@pytest.mark.parametrize("devices", [False, True])
def test_arguments_by_name_have_a_batch_axis(devices):
    x, y = jnp.arange(11.0), jnp.ones((11, 2))
    mesh = device_mesh("batch") if devices else None
    found = batched(lambda x, scale, y: scale * x * y["y"], (0, None), piece=2, mesh=mesh)(x, 3.0, y={"y": y})
    assert_close(found, 3 * x[:, None] * y)


@pytest.mark.parametrize("devices", [False, True])
def test_shared_arguments_need_not_be_arrays(model, states, devices):
    mesh = device_mesh("batch") if devices else None
    found = batched(jaxcfa.jacobian, (None, 0, None), piece=2, mesh=mesh)(model, states[0], "tip")
    assert_close(found, jax.vmap(lambda q: jaxcfa.jacobian(model, q, "tip"))(states[0]))


def test_outside_of_other_programs_it_is_compiled_once():
    traced = []

    def scaled(x, scale):
        traced.append(scale)
        return scale * x

    over_batch = batched(scaled, (0, None), piece=2)
    for scale in (3.0, 4.0):
        assert_close(over_batch(jnp.arange(11.0), scale), scale * np.arange(11.0))
    assert len(traced) == 1


def test_batches_of_any_size_are_multiples_of_the_devices():
    mesh = device_mesh("batch")
    shared, x = jax.jit(batched(jnp.sin, mesh=mesh)), spread(jnp.arange(16.0), mesh, "batch")

    def exported(shape):
        return export.export(shared)(jax.ShapeDtypeStruct(export.symbolic_shape(shape), x.dtype))

    assert_close(exported("8*n").call(x), np.sin(np.arange(16.0)))
    with pytest.raises(ValueError, match=r'cannot be shared by 8 devices: .*"8\*n"'):
        exported("n")


def test_bad_arguments_are_explained(states):
    with pytest.raises(ValueError, match="function must be a function of one state, got 3"):
        batched(3)
    with pytest.raises(ValueError, match="in_axes must be 0 or None for each argument, got 1"):
        batched(jnp.sin, 1)
    with pytest.raises(ValueError, match="some argument must have a batch axis"):
        batched(jnp.sin, None)
    with pytest.raises(ValueError, match="piece must be a positive integer, got 0"):
        batched(jnp.sin, piece=0)
    with pytest.raises(ValueError, match=r"must be a positive integer, got 2\.5"):
        batched(jnp.sin, piece=2.5)
    with pytest.raises(ValueError, match=r"mesh must be a jax\.sharding\.Mesh"):
        batched(jnp.sin, mesh=8)
    with pytest.raises(ValueError, match="axis 'batch' must be automatic"):
        batched(jnp.sin, mesh=jax.make_mesh((8,), ("batch",)))
    with pytest.raises(ValueError, match="2 entries for 1 arguments"):
        batched(jnp.sin, (0, None))(states[0])
    with pytest.raises(ValueError, match=r"one leading batch axis in common.* got arrays of shapes \(3,\), \(4,\)"):
        batched(jnp.add)(jnp.zeros(3), jnp.zeros(4))
    with pytest.raises(ValueError, match="got arrays of shapes none"):
        batched(jnp.sin)()
    with pytest.raises(ValueError, match="of one state or more"):
        batched(jnp.sin)(jnp.zeros((0, 3)))


def test_meshes_and_places_that_do_not_fit_are_explained(model):
    mesh = device_mesh("links")
    with pytest.raises(ValueError, match="A mesh of 8 devices needs different names"):
        device_mesh("a", "b", shape=(3, 2))
    for names in ((), (1,), ("links", "links")):
        with pytest.raises(ValueError, match="different names"):
            device_mesh(*names, shape=(8,) + (1,) * (len(names) - 1))
    with pytest.raises(ValueError, match=r"shape must be a sequence of integers, got 8\."):
        inspect.unwrap(device_mesh)("links", shape=8)
    with pytest.raises(ValueError, match=r"shape must be a positive integer, got 8\.0"):
        inspect.unwrap(device_mesh)("links", shape=(8.0,))
    for devices, given in ((["cpu"], "'cpu'"), (range(8), "0")):
        with pytest.raises(ValueError, match=f"devices must be a sequence of JAX's devices, .* got {given}"):
            inspect.unwrap(device_mesh)("links", devices=devices)
    with pytest.raises(ValueError, match="devices must be a sequence of devices, got 8"):
        inspect.unwrap(device_mesh)("links", devices=8)
    with pytest.raises(ValueError, match=r"shape \(9, 2\) cannot be cut into 8 equal parts"):
        spread(jnp.zeros((9, 2)), mesh, "links")
    with pytest.raises(ValueError, match="axis must be one of the mesh's, 'links', got 'batch'"):
        spread(model, mesh, "batch")
