#!/usr/bin/env python3
"""A network of apps/networks under TensorFlow's MirroredStrategy on logical CPU devices: images/s of a training step.

Prints one JSON line. README.md in this folder explains how to install TensorFlow.
It does the same work as bench_step: forward, backward with the all-reduce, and the update, on samples that are already
in memory. With bf16 the response normalisation and the loss stay in fp32.
"""

import os
import time

from harness import BATCHES, finish, parse, report, time_steps


def options_of_command_line():
    parser = parse(__doc__)
    parser.add_argument("--xla", action="store_true", help="compile each replica's step with XLA")
    return finish(parser)


def main():
    started = time.time()
    options = options_of_command_line()
    recipe = options.recipe
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    try:
        import tensorflow as tf
    except ImportError:
        raise SystemExit("tensorflow_mirrored.py: TensorFlow is missing. Install it as bench/peers/README.md explains.")
    import tensorflow_optimizers
    from tensorflow_networks import NETWORKS, Network

    tf.config.threading.set_intra_op_parallelism_threads(options.ranks * options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.ranks)
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration() for _ in range(options.ranks)])
    strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(options.ranks)])
    global_batch = options.batch * options.ranks
    tf.random.set_seed(1)
    with strategy.scope():
        network = NETWORKS[options.net](Network(tf.bfloat16 if options.dtype == "bf16" else tf.float32, recipe))
        variables = network.variables
        slots = tensorflow_optimizers.slots_of(recipe, variables)
        steps_done = tf.Variable(0.0, trainable=False)

    def update_all(distribution, gradients, now):
        total = distribution.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, list(zip(gradients, variables)))
        for variable, own, decay, gradient in zip(variables, slots, network.decays, total):
            def update(v, g, *state, decay=decay, count=len(own)):
                g = tf.convert_to_tensor(g)  # the gradient of an embedding is sparse
                return tensorflow_optimizers.apply(recipe, v, g + decay * v if decay else g, state[:count],
                                                   state[count:])

            distribution.extended.update(variable, update, args=(gradient, *own, *now))

    @tf.function(jit_compile=options.xla)
    def gradients_of(inputs, labels):
        with tf.GradientTape() as tape:
            logits = network.call(inputs)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            if recipe.smoothing:
                losses = ((1 - recipe.smoothing) * losses -
                          recipe.smoothing * tf.reduce_mean(tf.nn.log_softmax(logits), axis=1))
            # Division by the global batch makes the sum over replicas the mean.
            loss = tf.reduce_sum(losses) / global_batch
        return loss, tape.gradient(loss, variables)

    @tf.function
    def step(inputs, labels):
        now = tensorflow_optimizers.corrections(recipe, steps_done.assign_add(1.0))

        def replica(inputs, labels):
            loss, gradients = gradients_of(inputs, labels)
            tf.distribute.get_replica_context().merge_call(update_all, args=(gradients, now))
            return loss

        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica, args=(inputs, labels)), axis=None)

    def samples():
        if recipe.vocabulary:
            return tf.random.uniform([options.batch, *recipe.sample], maxval=recipe.vocabulary, dtype=tf.int32)
        return tf.random.normal([options.batch, *recipe.sample])

    def spread(make):
        return strategy.experimental_distribute_values_from_function(lambda context: make())

    batches = [(spread(samples),
                spread(lambda: tf.random.uniform([options.batch], maxval=recipe.classes, dtype=tf.int32)))
               for _ in range(BATCHES)]
    times = time_steps(lambda number: float(step(*batches[number % BATCHES])), options)
    report("tensorflow_mirrored", tf.__version__, options, times, started, xla=options.xla,
           parameters=int(sum(v.shape.num_elements() for v in variables + network.frozen)))


if __name__ == "__main__":
    main()
