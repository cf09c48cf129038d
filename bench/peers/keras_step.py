#!/usr/bin/env python3
"""A network of apps/networks in Keras 3 on TensorFlow or JAX: images/s of a training step.

Several ranks are the replicas of TensorFlow's MirroredStrategy on logical CPU devices. Prints one JSON line. README.md in
this folder explains how to install Keras. It does the same work as bench_step: forward, backward with the all-reduce, and
the update, on samples that are already in memory. With bf16 the response normalisation and the loss stay in fp32.
"""

import math
import os
import time

from harness import BATCHES, finish, parse, report, time_steps


def options_of_command_line():
    parser = parse(__doc__)
    parser.add_argument("--xla", action="store_true", help="compile each replica's step with XLA")
    parser.add_argument("--jax", action="store_true", help="use JAX, only with --ranks 1")
    return finish(parser, "jax")


def tensorflow_step(options, build, random):
    """Returns the model and the step of a batch's number, which returns the loss."""
    import tensorflow as tf
    import keras_optimizers

    recipe = options.recipe
    tf.config.threading.set_intra_op_parallelism_threads(options.ranks * options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.ranks)
    strategy = tf.distribute.get_strategy()
    if options.ranks > 1:
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0],
                                                   [tf.config.LogicalDeviceConfiguration()] * options.ranks)
        strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(options.ranks)])
    with strategy.scope():
        model = build()
        decays = keras_optimizers.decays_of(recipe, model.trainable_variables)
        variables = [v.value for v in model.trainable_variables]
        slots = [[tf.Variable(tf.zeros_like(v), trainable=False) for _ in range(keras_optimizers.slot_count(recipe))]
                 for v in variables]
        steps_done = tf.Variable(0.0, trainable=False)

    def update_all(distribution, gradients, now):
        total = distribution.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, list(zip(gradients, variables)))
        for variable, own, decay, gradient in zip(variables, slots, decays, total):
            def update(v, g, *state, decay=decay, count=len(own)):
                g = tf.convert_to_tensor(g)  # the gradient of an embedding is sparse
                keras_optimizers.apply(recipe, v, g + decay * v if decay else g, state[:count], state[count:])

            distribution.extended.update(variable, update, args=(gradient, *own, *now))

    @tf.function(jit_compile=options.xla)
    def gradients_of(inputs, labels):
        with tf.GradientTape() as tape:
            # Division by the global batch makes the sum over replicas the mean.
            loss = total_loss(recipe, model(inputs, training=True), labels) / (options.batch * options.ranks)
        return loss, tape.gradient(loss, variables)

    @tf.function
    def step(inputs, labels):
        now = keras_optimizers.corrections(recipe, steps_done.assign_add(1.0))

        def replica(inputs, labels):
            loss, gradients = gradients_of(inputs, labels)
            tf.distribute.get_replica_context().merge_call(update_all, args=(gradients, now))
            return loss

        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica, args=(inputs, labels)), axis=None)

    def spread(part):
        if options.ranks == 1:
            return tf.constant(random[part]())
        return strategy.experimental_distribute_values_from_function(lambda context: tf.constant(random[part]()))

    batches = [(spread(0), spread(1)) for _ in range(BATCHES)]
    return model, lambda number: float(step(*batches[number % BATCHES]))


def jax_step(options, build, random):
    """Returns the model and the step of a batch's number, which returns the loss. The whole step is one jax.jit."""
    import jax
    import keras_optimizers

    recipe, model = options.recipe, build()
    decays = keras_optimizers.decays_of(recipe, model.trainable_variables)
    trained = [v.value for v in model.trainable_variables]
    slots = [[jax.numpy.zeros_like(v) for _ in range(keras_optimizers.slot_count(recipe))] for v in trained]
    state = [trained, [v.value for v in model.non_trainable_variables], slots, jax.numpy.float32(0)]

    def step(state, inputs, labels):
        trained, kept, slots, t = state

        def loss_of(trained):
            outputs, kept_after = model.stateless_call(trained, kept, inputs, training=True)
            return total_loss(recipe, outputs, labels) / options.batch, kept_after

        (loss, kept), gradients = jax.value_and_grad(loss_of, has_aux=True)(trained)
        now = keras_optimizers.corrections(recipe, t + 1)
        after = [keras_optimizers.step(recipe, v, g + decay * v if decay else g, own, now)
                 for v, g, own, decay in zip(trained, gradients, slots, decays)]
        return loss, [[v for v, _ in after], kept, [own for _, own in after], t + 1]

    compiled = jax.jit(step, donate_argnums=0)
    batches = [[jax.numpy.asarray(make()) for make in random] for _ in range(BATCHES)]

    def run(number):
        nonlocal state
        loss, state = compiled(state, *batches[number % BATCHES])
        jax.block_until_ready(state)
        return float(loss)

    return model, run


def total_loss(recipe, outputs, labels):
    from keras import ops

    logs = ops.log_softmax(ops.cast(outputs, "float32"))
    truth = ops.one_hot(labels, recipe.classes) * (1 - recipe.smoothing) + recipe.smoothing / recipe.classes
    return -ops.sum(truth * logs)


def main():
    started = time.time()
    options = options_of_command_line()
    recipe = options.recipe
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["CUDA_VISIBLE_DEVICES"], os.environ["JAX_PLATFORMS"] = "-1", "cpu"
    os.environ["KERAS_BACKEND"] = "jax" if options.jax else "tensorflow"
    os.environ["NPROC"] = str(options.threads)  # threads of XLA under JAX
    try:
        import keras
        import numpy
    except ImportError:
        raise SystemExit("keras_step.py: Keras is missing. Install it as bench/peers/README.md explains.")
    if options.dtype == "bf16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    keras.utils.set_random_seed(1)
    generator = numpy.random.default_rng(1)

    def samples():
        if recipe.vocabulary:
            return generator.integers(recipe.vocabulary, size=(options.batch, *recipe.sample), dtype="int32")
        return generator.standard_normal((options.batch, *recipe.sample), dtype="float32")

    def labels():
        return generator.integers(recipe.classes, size=options.batch, dtype="int32")

    def build():
        from keras_networks import NETWORKS

        if options.net not in NETWORKS:
            raise SystemExit(f"keras_step.py: there is no {options.net} in keras_networks.py.")
        return NETWORKS[options.net](recipe)

    model, step = (jax_step if options.jax else tensorflow_step)(options, build, (samples, labels))
    times = time_steps(step, options)
    report("keras_step", keras.__version__, options, times, started, backend=os.environ["KERAS_BACKEND"], xla=options.xla,
           parameters=sum(math.prod(v.shape) for v in model.weights if not v.name.startswith("moving_")))


if __name__ == "__main__":
    main()
